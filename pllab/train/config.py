"""What to train and on how many devices: one frozen record, checked before anything starts.

A wrong value is refused here, in the calling process, and not ten seconds later by one of four ranks. The command line
makes its flags from these fields, so each has its meaning below it.
"""

import json
import math
import re
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pllab.arguments import deadline, is_number, require, thread_count, whole_number
from pllab.models.gpt2 import SIZES
from pllab.schedule import FAMILIES
from pllab.train.axes import check_axes, settled

Mode = Literal["single", "data_parallel", "model_parallel", "pipeline", "tensor_parallel", "hybrid"]
MODES: tuple[Mode, ...] = get_args(Mode)
PipelineSchedule = Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble"]
ModelSize = Literal["tiny", "gpt2", "medium", "large", "xl", "1B"]
_OF_MODEL: int = None  # type: ignore[assignment]  # until __post_init__ has looked it up
_USUAL_SIZE = (4, 128, 4)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run, on any axes.

    Example: `TrainConfig(mode="pipeline", world_size=2, num_microbatches=4)` trains a GPT-2 of 4 layers on
    two devices, 2 layers each, every batch of 32 examples in 4 micro-batches of 8.

    Raises:
        ValueError: a value is out of range or contradicts another; the message names it and the way out.
    """

    mode: Mode = "single"
    """A name for the axes: none, dp alone, pp alone with its layers in turn or as a pipeline, tp alone, or several."""
    world_size: int = 1
    """Number of devices, the product of the axes: with a mode instead of axes, the size of the mode's axis."""
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
    """Parts of rows that a device takes one after the other in a step, to hold the activations of one at a time."""
    learning_rate: float = 1e-3
    """Step size of the optimizer, the largest of its schedule."""
    lr_schedule: Literal["constant", "cosine", "linear"] = "constant"
    """How the learning rate falls, to zero after the last step, or stays."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises at first; N of them begin with 1/(N+1) of it."""
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
    """Most training examples in an epoch; none takes all."""
    validation_samples: int | None = 128
    """Most examples for the validation loss and for BLEU; none takes all."""
    eval_interval: int = 0
    """Steps from one validation loss to the next, besides that after every epoch; 0 for no others."""
    num_microbatches: int | None = None
    """Micro-batches per batch of the pipeline; none makes twice as many as there are stages."""
    split_size: int | None = None
    """Rows per micro-batch of the pipeline, instead of num_microbatches."""
    schedule: PipelineSchedule = "gpipe"
    """Order of forwards and backwards of the pipeline; zero_bubble is searched for what this machine costs."""
    memory_limit: float | None = None
    """Micro-batches a rank may hold under zero_bubble; none allows as many as there are ranks."""
    recompute: bool = False
    """Compute a stage's forward again in its backward instead of keeping activations (pipeline)."""
    model: ModelSize | None = None
    """Size of the GPT-2 by name, as published; 1B has 18 blocks of width 2048; none is 4 blocks of width 128."""
    n_layer: int = _OF_MODEL
    """Transformer blocks of the GPT-2, instead of the model's."""
    n_embd: int = _OF_MODEL
    """Width of the GPT-2, instead of the model's."""
    n_head: int = _OF_MODEL
    """Attention heads, instead of the model's; they divide the width."""
    vocab_size: int = 1024
    """Most entries of the tokenizer's vocabulary, which is trained on the data."""
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
    """Folder of results, checkpoints and figures; made when missing."""
    checkpoint: bool = False
    """Save model and optimizer after every epoch (the newest is kept)."""
    checkpoint_interval: int = 0
    """Steps between checkpoints within an epoch; 0 saves at its end alone."""
    resume: bool = False
    """Go on from the newest checkpoint of this name; with checkpoint, start anew where there is none yet."""
    name: str | None = None
    """Name of the run's files in the work folder, so that it can go on under other axes; none is made of the axes."""
    bleu: bool = True
    """Translate validation examples at the end where the data has sources."""
    tensorboard: bool = False
    """Write losses, gradient norms and rates for TensorBoard too."""
    profile: str | None = None
    """Folder for torch's own trace of two steps of the first epoch, a file a rank; import reads those of a pipeline."""

    def __post_init__(self) -> None:
        _check_choices(self)
        sizes = _USUAL_SIZE if self.model is None else SIZES[self.model]
        for name, size in zip(("n_layer", "n_embd", "n_head"), sizes, strict=True):
            if getattr(self, name) is None:  # a given size wins over the model's
                object.__setattr__(self, name, size)
        _check_ranges(self)
        for name, value in settled(self).items():
            object.__setattr__(self, name, value)
        check_axes(self)
        _check_devices(self)
        _check_microbatches(self)

    @property
    def run_name(self) -> str:
        """Name of the run's files in the work folder: `pipeline-2`, `pipeline-2-1f1b`, `hybrid-4-dp2-tp2-zero3`."""
        if self.name is not None:
            return self.name
        axes = [f"{axis}{getattr(self, axis)}" for axis in ("dp", "tp", "pp") if getattr(self, axis) > 1]
        parts = [self.mode, str(self.world_size), *(axes if self.mode == "hybrid" else [])]
        parts += [f"zero{self.zero}"] * bool(self.zero) + [self.schedule] * (self.schedule != "gpipe")
        return "-".join([*parts, *["pytorch"] * (self.implementation == "pytorch")])

    @property
    def label(self) -> str:
        """The name with the options that it leaves out, for tables: `tensor_parallel-2 loss_parallel`."""
        options = [option for option in ("loss_parallel", "deferred_init") if getattr(self, option)]
        return " ".join([self.run_name, *options])

    @property
    def is_split(self) -> bool:
        """Whether the model's layers lie on several devices."""
        return self.mode in ("model_parallel", "pipeline") or self.pp > 1

    @property
    def is_pipelined(self) -> bool:
        """Whether those devices work at the same time."""
        return self.is_split and self.mode != "model_parallel"

    def share_of(self, rank: int) -> int:
        """Which of the dp shares of the data a rank works on: ranks along tp and pp have the same."""
        return rank // self.tp % self.dp

    @property
    def needs_ranks(self) -> bool:
        """Whether each device has a process of its own; a pipeline alone runs on lanes."""
        is_torch = self.implementation == "pytorch" and self.world_size > 1
        return self.mode == "data_parallel" or self.dp * self.tp > 1 or is_torch

    @property
    def norm_limit(self) -> float | None:
        """Largest gradient norm of a step; infinite if norms are only recorded, none if they are not."""
        return math.inf if self.tensorboard and self.gradient_clipping is None else self.gradient_clipping

    @property
    def num_stages(self) -> int:
        """Number of stages of a model on several devices."""
        family = FAMILIES.get(self.schedule)  # zero_bubble is none: it is searched
        return self.pp * (family.stages_per_rank if family else 1)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that decide what is learned, as plain values; a resumed run must have the same."""
        return {name: value for name, value in json.loads(json.dumps(asdict(self))).items() if name in _IDENTITY}

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)


_IDENTITY = frozenset(
    (
        "dataset columns max_length samples_per_epoch batch_size optimizer"
        " n_layer n_embd n_head vocab_size dropout dtype seed"
    ).split()
)
_COUNTS = (
    "world_size dp tp pp batch_size num_epochs max_length samples_per_epoch validation_samples"
    " n_layer n_embd n_head vocab_size num_threads num_microbatches split_size accumulation"
)
# Far above any GPT-2: a model of 10**30 layers would be made without end, and torch counts sizes in 64 bits.
_MOST = {"n_layer": 1_000, "n_embd": 100_000, "max_length": 1_000_000, "vocab_size": 10_000_000}


def _check_choices(config: TrainConfig) -> None:
    for name, hint in get_type_hints(TrainConfig).items():
        choices = next((get_args(kind) for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal), None)
        value = getattr(config, name)
        if choices and value not in choices and not (value is None and NoneType in get_args(hint)):
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(str, choices))}")


def _check_ranges(config: TrainConfig) -> None:
    for name in _COUNTS.split():
        value, default = getattr(config, name), getattr(TrainConfig, name)
        if value is not None or default is not None:
            whole_number(name, value, most=_MOST.get(name))
    for name in ("warmup_steps", "eval_interval", "checkpoint_interval"):
        whole_number(name, getattr(config, name), least=0)
    thread_count(config.num_threads)
    for name in ("learning_rate", "gradient_clipping", "peak_flops"):
        value = getattr(config, name)
        is_fine = value is None or (is_number(value) and 0 < value < math.inf)
        require(is_fine, f"{name} is {value}; give a finite number above 0")
    deadline(config.timeout_s)
    is_seed = isinstance(config.seed, int) and 0 <= config.seed < 2**63
    require(is_seed, f"seed is {config.seed}; give a whole number from 0 to 2**63 - 1")
    for name, what in (("workdir", "a folder for results and checkpoints"), ("dataset", "a data set, or its path")):
        value = getattr(config, name)
        is_name = isinstance(value, str) and value != "" and "\0" not in value
        require(is_name, f"{name} is {value!r}; name {what}")
    is_file = config.name is None or bool(re.fullmatch(r"[\w.-]*\w[\w.-]*", config.name))
    require(is_file, f"name is {config.name!r}; give letters, digits, dots, dashes and underscores")
    is_probability = is_number(config.dropout) and 0 <= config.dropout < 1
    require(is_probability, f"dropout is {config.dropout}; give a probability from 0 to less than 1")
    require(
        config.n_embd % config.n_head == 0,
        f"n_embd {config.n_embd} is not divisible by n_head {config.n_head}; every head takes an equal share",
    )
    require(config.max_length >= 2, f"max_length is {config.max_length}; give 2 or more, one to predict")
    require(
        config.columns is None or len(config.columns) in (1, 2),
        f"columns are {config.columns}; give one (text) or two (source and target)",
    )


def _check_devices(config: TrainConfig) -> None:
    world_size, rows = config.world_size, config.batch_size // config.dp
    require(
        config.mode != "single" or world_size == 1,
        f"world_size is {world_size} in mode single; give 1, or choose data_parallel, model_parallel or pipeline",
    )
    require(
        rows % config.accumulation == 0,
        f"accumulation {config.accumulation} does not divide the {rows} rows of a device; give a number that does",
    )
    require(
        not config.is_split or config.num_stages <= config.n_layer,
        f"{config.num_stages} stages are more than the {config.n_layer} layers of the model; "
        "give a smaller world_size or a larger n_layer",
    )


def _check_microbatches(config: TrainConfig) -> None:
    count, size = config.num_microbatches, config.split_size
    require(
        count is None or size is None,
        f"num_microbatches {count} and split_size {size} say the same thing twice; "
        "give the count or the rows of one micro-batch",
    )
    require(
        not config.is_pipelined or config.accumulation == 1,
        f"accumulation is {config.accumulation} in a pipeline, where micro-batches are the accumulation; "
        "give num_microbatches instead",
    )
    options = {"num_microbatches": count, "split_size": size, "recompute": config.recompute}
    options["schedule"] = config.schedule != "gpipe"
    only = [name for name, value in options.items() if value]
    require(
        config.is_pipelined or not only,
        f"{' and '.join(only)} belong to mode pipeline, not to {config.mode}; leave them out",
    )
    require(
        config.memory_limit is None or config.schedule == "zero_bubble",
        f"memory_limit {config.memory_limit} belongs to schedule zero_bubble, not to {config.schedule}; leave it out",
    )
    require(
        config.memory_limit is None or (is_number(config.memory_limit) and 1 <= config.memory_limit < math.inf),
        f"memory_limit is {config.memory_limit}; one micro-batch counts 1, so give at least 1",
    )
    require(
        count is None or count <= config.batch_size // config.dp,
        f"num_microbatches {count} is more than the {config.batch_size // config.dp} rows of a pipeline's batch; "
        "give fewer micro-batches or a larger batch_size",
    )
