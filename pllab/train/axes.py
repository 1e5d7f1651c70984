"""The axes over which ranks share a run, dp x tp x pp: the modes are names for them, and their product is the world."""

from typing import TYPE_CHECKING, Any

from pllab.arguments import require
from pllab.schedule import FAMILIES

if TYPE_CHECKING:
    from pllab.train.config import TrainConfig


def settled(config: "TrainConfig") -> dict[str, Any]:
    """Mode, world size and axes that agree, where some of them are given.

    Example, what is given and what follows:

        mode data_parallel, world_size 4     dp 4
        mode pipeline, world_size 2          pp 2
        dp 2, tp 2                           mode hybrid, world_size 4
        dp 2                                 mode data_parallel, world_size 2

    Raises:
        ValueError: they contradict each other; the message has the right product.
    """
    sizes = {"dp": config.dp, "tp": config.tp, "pp": config.pp}
    product = config.dp * config.tp * config.pp
    mode, world_size = config.mode, config.world_size
    if product == 1:
        axis = {"data_parallel": "dp", "pipeline": "pp", "model_parallel": "pp", "tensor_parallel": "tp"}.get(mode)
        if mode == "hybrid":
            raise ValueError("mode is 'hybrid', which has several axes; give two of dp, tp and pp, such as dp=2, tp=2")
        return sizes | ({axis: world_size} if axis else {}) | {"mode": mode, "world_size": world_size}
    alone = {config.dp: "data_parallel", config.pp: "pipeline", config.tp: "tensor_parallel"}
    named = alone.get(product, "hybrid")
    in_words = " x ".join(f"{axis} {size}" for axis, size in sizes.items())
    if mode not in ("single", named) and (mode, named) != ("model_parallel", "pipeline"):
        raise ValueError(f"{in_words} is mode {named}, not {mode}; leave the mode out")
    if world_size not in (1, product):
        raise ValueError(f"{in_words} is {product}, not world_size {world_size}; give world_size {product} or none")
    return sizes | {"mode": named if mode == "single" else mode, "world_size": product}


def check_axes(config: "TrainConfig") -> None:
    """Refuse what the axes cannot do, before any process starts.

    Raises:
        ValueError: an option does not fit the axes; the message says what to give instead.
    """
    rows, dp, tp = config.batch_size, config.dp, config.tp
    require(
        rows % dp == 0,
        f"batch_size {rows} is {'smaller than' if rows < dp else 'not divisible by'} dp {dp}; "
        "it counts the examples of all ranks together, so give a multiple",
    )
    require(
        config.n_head % tp == 0,
        f"n_head {config.n_head} is not divisible by tp {tp}; every rank takes an equal share of the heads",
    )
    require(not config.zero or dp > 1, f"zero {config.zero} shards over dp, which is {dp}; give dp 2 or more")
    require(
        config.zero < 2 or config.pp == 1,
        f"zero {config.zero} and pp {config.pp} do not go together, because every micro-batch would send every "
        "gradient or parameter again; give zero 1",
    )
    require(not config.loss_parallel or tp > 1, "loss_parallel splits the loss over tp, which is 1; give tp 2 or more")
    _check_options(config)
    _check_recompute(config)
    if config.implementation == "pytorch":
        _check_pytorch(config)


def _check_options(config: "TrainConfig") -> None:
    """What is for models of which every rank has all, or only for others."""
    is_spread = config.zero > 0 or config.tp > 1
    require(
        not config.deferred_init or config.zero > 0,
        "deferred_init makes a model shard by shard; give zero 1, 2 or 3, or leave it out",
    )
    require(
        not config.deferred_init or config.pp == 1,
        f"deferred_init and pp {config.pp} do not go together, because stages are cut from whole models; leave one out",
    )
    require(
        not (config.compile and (is_spread or config.is_split)),
        f"compile belongs to modes single and data_parallel without zero, not to {config.mode}; leave it out",
    )


def _check_recompute(config: "TrainConfig") -> None:
    family = FAMILIES.get(config.schedule)
    is_split = family is None or family.make(2, 2).is_split  # zero_bubble is no family, and splits too
    require(
        not (config.recompute and config.is_pipelined and config.needs_ranks and is_split),
        f"recompute and schedule {config.schedule} do not go together between ranks, because each part of a split "
        "backward would compute the forward again; take gpipe, 1f1b or interleaved, or leave recompute out",
    )


def _check_pytorch(config: "TrainConfig") -> None:
    require(
        config.mode != "model_parallel",
        "mode model_parallel runs on lanes, which PyTorch has not; leave implementation out, or take mode pipeline",
    )
    require(
        config.tp == 1,
        f"tp {config.tp} has no implementation pytorch here, which replicates (DistributedDataParallel), shards "
        "(fully_shard) and pipelines; take implementation custom",
    )
    require(
        config.zero != 1,
        "zero 1 has no implementation pytorch here, whose fully_shard begins with the gradients; give zero 2 or 3, or "
        "take implementation custom",
    )
