"""What to train and on how many devices: one frozen record, checked before anything starts.

Ranks share a run along three axes, dp x tp x pp; the modes are names for them. A wrong value is refused here, in the
calling process, not ten seconds later by one of four ranks. The command line makes its flags from these fields, so
each has its meaning below it.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pllab.arguments import is_number, require, thread_count, whole_number
from pllab.comm.group import torchrun_rank
from pllab.models.new_gpt2 import SIZES
from pllab.schedule import FAMILIES, FamilyName

_AXIS_OF = {"data_parallel": "dp", "tensor_parallel": "tp", "pipeline": "pp", "model_parallel": "pp"}
_LATER: int = None  # type: ignore[assignment]  # until __post_init__ has looked it up
_USUAL_SIZE = (4, 128, 4)
_LEAST = {"seed": 0, "warmup_steps": 0, "eval_interval": 0, "checkpoint_interval": 0, "max_length": 2}
# Far above any GPT-2: a model of 10**30 layers would be made without end, and torch counts sizes in 64 bits.
_MOST = {"n_layer": 1_000, "n_embd": 100_000, "max_length": 1_000_000, "vocab_size": 10_000_000, "seed": 2**63 - 1}
_SIZES = ("n_layer", "n_embd", "n_head")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run, on any axes.

    Example: `TrainConfig(mode="pipeline", world_size=2, num_microbatches=4)` trains a GPT-2 of 4 layers on
    two devices, 2 layers each, every batch of 32 examples in 4 micro-batches of 8.

    The sizes of a `model` are looked up once, so `dataclasses.replace` with another one keeps them.

    Raises:
        ValueError: a value is out of range or contradicts another; the message names it and the way out.
    """

    mode: Literal["single", "data_parallel", "model_parallel", "pipeline", "tensor_parallel", "hybrid"] = "single"
    """A name for the axes: none, dp alone, pp alone with its layers in turn or as a pipeline, tp alone, or several."""
    world_size: int = _LATER
    """Number of devices, the product of the axes; a mode alone has 2, or as many as torchrun has started ranks."""
    dp: int = 1
    """Ranks that share the batch."""
    zero: Literal[0, 1, 2, 3] = 0
    """What dp shards instead of replicating: 1 optimizer state, 2 and gradients, 3 and parameters."""
    tp: int = 1
    """Ranks that split each layer."""
    pp: int = 1
    """Ranks, lanes or GPUs that share the layers as a pipeline."""
    implementation: Literal["custom", "pytorch"] = "custom"
    """Whose classes share the model: this package's or PyTorch's."""
    loss_parallel: bool = False
    """Leave logits split over tp and compute the loss on the slices."""
    deferred_init: bool = False
    """Make the model shard by shard, so that no rank ever holds all of it (zero)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Kind of device; auto takes CUDA where there is a GPU."""
    batch_size: int = 32
    """Examples per optimizer step over all devices (the global batch)."""
    num_epochs: int = 3
    """Passes over the training data; the first is warm-up and left out of the means of several."""
    accumulation: int = 1
    """Parts into which a device cuts its rows of a step; it takes them in turn, and holds the activations of one."""
    learning_rate: float = 1e-3
    """Step size of the optimizer: the largest, if a schedule changes it."""
    lr_schedule: Literal["constant", "cosine", "linear"] = "constant"
    """Whether the learning rate stays, or falls to zero after the last step, and how."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises at the start; with N of them it begins at 1/(N+1)."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Update rule: AdamW without weight decay, or plain gradient descent."""
    gradient_clipping: float | None = None
    """Largest gradient norm over all parameters; none leaves gradients as they are."""
    dataset: str = "docs"
    """docs, numbers, iwslt14-de-en, tinyshakespeare, openwebtext, owner/set of the hub, or a path."""
    columns: tuple[str, ...] | None = None
    """Column of the text, or columns of source and target, of a data set that is not known by name."""
    max_length: int = 64
    """Longest example in tokens; the rest is cut off."""
    samples_per_epoch: int | None = 1024
    """Training examples in an epoch, at most; none takes all."""
    validation_samples: int | None = 128
    """Examples for the validation loss and for BLEU, at most; none takes all."""
    eval_interval: int = 0
    """Steps between validation losses, besides the one after every epoch; 0 for none."""
    num_microbatches: int | None = None
    """Micro-batches per batch of the pipeline; none makes twice as many as there are stages."""
    schedule: Literal[FamilyName, "zero_bubble"] = "gpipe"
    """Order of forwards and backwards of the pipeline; zero_bubble is searched for what this machine costs."""
    memory_limit: float | None = None
    """Micro-batches a rank may hold under zero_bubble; none allows as many as there are ranks."""
    recompute: bool = False
    """Compute a stage's forward again in its backward instead of keeping activations (pipeline)."""
    model: Literal["tiny", "gpt2", "medium", "large", "xl", "1B"] | None = None
    """Size of the GPT-2 by name, as published; 1B has 18 blocks of width 2048; none is 4 blocks of width 128."""
    n_layer: int = _LATER
    """Transformer blocks of the GPT-2, instead of the model's."""
    n_embd: int = _LATER
    """Width of the GPT-2, instead of the model's."""
    n_head: int = _LATER
    """Attention heads, instead of the model's; they divide the width."""
    vocab_size: int = 1024
    """Entries of the tokenizer's vocabulary, at most; the tokenizer is trained on the data."""
    dropout: float = 0.0
    """Probability of dropping an activation of embedding and residual branches, 0 to less than 1."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number type of parameters and activations."""
    compile: bool = False
    """Let torch.compile translate the model first (single and data_parallel)."""
    peak_flops: float | None = None
    """Multiplications and additions that a device could do in a second; none measures them with a matrix product."""
    seed: int = 1234
    """Seed of weights, order of the data and dropout."""
    num_threads: int = 1
    """Compute threads per CPU device."""
    timeout_s: float = 86400.0
    """Seconds after which ranks that have not finished are ended, and lanes that have not finished an action."""
    workdir: str = "workdir"
    """Folder of results and checkpoints; made when missing."""
    checkpoint: bool = False
    """Save model and optimizer after every epoch; only the newest checkpoint is kept."""
    checkpoint_interval: int = 0
    """Steps between checkpoints within an epoch; 0 saves only at its end."""
    resume: bool = False
    """Go on from the newest checkpoint of this name; with checkpoint, start anew where there is none yet."""
    name: str | None = None
    """Name of the run's files in the work folder, so that it can go on under other axes; none is made of the axes."""
    bleu: bool = True
    """Translate validation examples at the end where the data has sources."""
    tensorboard: bool = False
    """Write losses, gradient norms and rates for TensorBoard too."""
    profile: str | None = None
    """Folder for torch's trace of two steps of the first epoch, one file per rank; import reads those of a pipeline."""

    def __post_init__(self) -> None:
        sizes = SIZES.get(str(self.model), _USUAL_SIZE)
        usual = dict(zip(_SIZES, sizes, strict=True)) | {"world_size": _usual_world_size(self)}
        for name, value in usual.items():
            if getattr(self, name) is None:  # a given size wins over the model's
                object.__setattr__(self, name, value)
        for name, hint in get_type_hints(TrainConfig).items():
            object.__setattr__(self, name, _checked(name, hint, getattr(self, name)))
        thread_count(self.num_threads)
        for name, value in _settled_axes(self).items():
            object.__setattr__(self, name, value)
        _refuse_contradictions(self)

    @property
    def run_name(self) -> str:
        """Name of the run's files in the work folder: `pipeline-2`, `pipeline-2-1f1b`, `hybrid-4-dp2-tp2-zero3`."""
        if self.name is not None:
            return self.name
        axes = [f"{axis}{getattr(self, axis)}" for axis in ("dp", "tp", "pp") if getattr(self, axis) > 1]
        parts = [self.mode, str(self.world_size), *(axes if self.mode == "hybrid" else [])]
        parts += [f"zero{self.zero}"] * bool(self.zero) + [self.schedule] * (self.schedule != "gpipe")
        parts += ["pytorch"] * (self.implementation == "pytorch")
        return "-".join([*parts, *(option for option in ("loss_parallel", "deferred_init") if getattr(self, option))])

    @property
    def folder(self) -> Path:
        """Folder of the run's checkpoints and TensorBoard files."""
        return Path(self.workdir, self.run_name)

    @property
    def result_file(self) -> Path:
        """The JSON of the result, beside the run's folder."""
        return self.folder.with_name(f"{self.folder.name}.json")

    @property
    def is_split(self) -> bool:
        """Whether the model's layers lie on several devices."""
        return self.mode in ("model_parallel", "pipeline") or self.pp > 1

    def share_of(self, rank: int) -> int:
        """Which of the dp shares of the data a rank works on: ranks along tp and pp have the same."""
        return rank // self.tp % self.dp

    @property
    def needs_ranks(self) -> bool:
        """Whether each device has a process of its own; a pipeline alone runs on lanes."""
        is_torch = self.implementation == "pytorch" and self.world_size > 1
        return self.mode == "data_parallel" or self.dp * self.tp > 1 or is_torch


def _checked(name: str, hint: Any, value: Any) -> Any:
    """The value as Python's own kind, which JSON takes; refuses one that its field does not allow."""
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    kind = kinds[0]
    if value is None and NoneType in kinds:
        return None
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        require(value in choices, f"{name} is {value!r}; choose one of {', '.join(map(str, choices))}")
        return choices[choices.index(value)]
    if kind is int:
        return whole_number(name, value, least=_LEAST.get(name, 1), most=_MOST.get(name))
    if name == "dropout":
        require(is_number(value) and 0 <= value < 1, f"dropout is {value}; give a probability from 0 to less than 1")
    elif kind is float:
        require(is_number(value) and 0 < value < math.inf, f"{name} is {value}; give a finite number above 0")
    return kind(value) if kind in (float, bool) else value


def _usual_world_size(config: TrainConfig) -> int:
    """The devices of a run that names none: with axes their product, which `_settled_axes` takes for 1."""
    if config.mode == "single" or (config.dp, config.tp, config.pp) != (1, 1, 1):
        return 1
    started = torchrun_rank()
    return 2 if started is None else started[1]


def _settled_axes(config: TrainConfig) -> dict[str, Any]:
    """Consistent mode, world size and axes, from those that are given.

    Example, what is given and what follows:

        mode data_parallel, world_size 4     dp 4
        mode pipeline, world_size 2          pp 2
        dp 2, tp 2                           mode hybrid, world_size 4
        dp 2                                 mode data_parallel, world_size 2
    """
    sizes = {axis: getattr(config, axis) for axis in ("dp", "tp", "pp")}
    product, mode, world_size = math.prod(sizes.values()), config.mode, config.world_size
    if product == 1:
        require(mode != "hybrid", "mode is 'hybrid', which has several axes; give two of them, such as dp=2, tp=2")
        return {_AXIS_OF[mode]: world_size} if mode in _AXIS_OF else {}
    alone = (name for name, axis in _AXIS_OF.items() if sizes[axis] == product)
    named = mode if (mode, config.pp) == ("model_parallel", product) else next(alone, "hybrid")
    in_words = " x ".join(f"{axis} {size}" for axis, size in sizes.items())
    require(mode in ("single", named), f"{in_words} is mode {named}, not {mode}; leave the mode out")
    wrong_size = f"{in_words} is {product}, not world_size {world_size}; give world_size {product} or none"
    require(world_size in (1, product), wrong_size)
    return {"mode": named, "world_size": product}


def _refuse_contradictions(config: TrainConfig) -> None:
    _refuse_sizes(config)
    mode, dp, tp, pp, zero = config.mode, config.dp, config.tp, config.pp, config.zero
    others = "give 1, or choose data_parallel, model_parallel or pipeline"
    require(mode != "single" or config.world_size == 1, f"world_size is {config.world_size} in mode single; {others}")
    is_pipelined = config.is_split and mode != "model_parallel"
    has_effect = {
        "zero": dp > 1,
        "deferred_init": zero > 0,
        "loss_parallel": tp > 1,
        "compile": zero == 0 and tp == 1 and not config.is_split,
        "accumulation": not is_pipelined,  # whose micro-batches are the accumulation
        "num_microbatches": is_pipelined,
        "schedule": is_pipelined,
        "memory_limit": config.schedule == "zero_bubble",
        "recompute": config.is_split,
    }
    for name, is_used in has_effect.items():
        value = getattr(config, name)
        told = f"{name} {value} has no effect in mode {mode} with dp {dp}, tp {tp}, pp {pp}; leave it out"
        require(is_used or value == getattr(TrainConfig, name), told)
    uneven = f"batch_size {config.batch_size} is not divisible by dp {dp}"
    require(config.batch_size % dp == 0, f"{uneven}; it counts the examples of all ranks together, so give a multiple")
    rows, parts = config.batch_size // dp, config.num_microbatches or 1
    too_many = f"num_microbatches {parts} is more than the {rows} rows of a pipeline's batch"
    require(parts <= rows, f"{too_many}; give fewer micro-batches or a larger batch_size")
    again = "because every micro-batch would send every gradient or parameter again; give zero 1"
    require(zero < 2 or pp == 1, f"zero {zero} and pp {pp} do not go together, {again}")
    cut = f"deferred_init and pp {pp} do not go together, because stages are cut from whole models; leave one out"
    require(not config.deferred_init or pp == 1, cut)
    family = FAMILIES.get(config.schedule)  # zero_bubble is none, and splits its backwards too
    is_twice = config.recompute and (family is None or family.make(2, 2).is_split)
    again = "because ranks would compute the forward again in each part of a split backward"
    way_out = "take gpipe, 1f1b or interleaved, or leave recompute out"
    require(not is_twice, f"recompute and schedule {config.schedule} do not go together, {again}; {way_out}")
    if config.implementation == "pytorch":
        has = "replicates (DistributedDataParallel), shards (fully_shard) and pipelines; take implementation custom"
        require(tp == 1, f"tp {tp} has no implementation pytorch here, which {has}")
        has = "whose fully_shard begins with the gradients; give zero 2 or 3, or take implementation custom"
        require(zero != 1, f"zero 1 has no implementation pytorch here, {has}")


def _refuse_sizes(config: TrainConfig) -> None:
    is_file = config.name is None or bool(re.fullmatch(r"[\w.-]*\w[\w.-]*", config.name))
    require(is_file, f"name is {config.name!r}; give letters, digits, dots, dashes and underscores")
    uneven = f"n_embd {config.n_embd} is not divisible by n_head {config.n_head}"
    require(config.n_embd % config.n_head == 0, f"{uneven}; every head takes an equal share")
    uneven = f"n_head {config.n_head} is not divisible by tp {config.tp}"
    require(config.n_head % config.tp == 0, f"{uneven}; every rank takes an equal share of the heads")
