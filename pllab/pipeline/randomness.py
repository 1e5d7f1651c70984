"""Random numbers inside a stage, the same in whatever order the threads run.

Torch has one random generator per device. CPU lanes are threads of one process, so they share it, and which lane draws
first changes from run to run. Here each pair (stage, micro-batch) has its own seed, made from the batch's seed:
its draws depend on nothing else, and are the same when the stage is computed again.

`nn.Dropout` is the usual case and cheap: one function is replaced. Other random operations are noticed in a stage's
first forward, by a dispatch mode; from then on every operation of that stage goes through that mode.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pllab.comm.devices import is_gpu


class Mode(NamedTuple):
    """Which parts of a stage are in training mode, and whether an `nn.Dropout` among them drops."""

    flags: tuple[bool, ...]
    drops: bool


def draw_seed(device: torch.device | None = None) -> int:
    """The seed of a batch, from torch's default generator: `torch.manual_seed` decides it.

    In a stage that runs under `Draws.seeded`, the seed of a part of it, from the stage's generator on that device.
    """
    return int(torch.randint(2**62, (), device=device).item())


class Draws:
    """The random draws of one stage: made once for a stage, used in each of its forwards.

    Example: two calls of `with draws.seeded(batch_seed=7, micro_batch=0): block(x)` give the same result.
    """

    def __init__(self, stage: int, module: nn.Module, device: torch.device) -> None:
        self._stage = stage
        self._module = module
        self._device = device if is_gpu(device) else torch.device("cpu")
        self._draws_more: dict[tuple[bool, ...], bool] = {}  # the key says which parts are in training mode

    def mode(self) -> Mode:
        """What decides how the stage draws; it walks over the modules, so a caller of many forwards does it once."""
        parts = list(self._module.modules())
        drops = any(isinstance(part, nn.Dropout) and part.training and part.p > 0 for part in parts)
        return Mode(tuple(part.training for part in parts), drops)

    @contextmanager
    def seeded(self, batch_seed: int, micro_batch: int, mode: Mode | None = None) -> Iterator[None]:
        """Inside the block, on this thread, draw from a generator that belongs to this micro-batch.

        Raises:
            ValueError: an operation draws inside a kernel that takes no generator.
        """
        flags, has_dropout = mode or self.mode()
        may_draw_more = self._draws_more.get(flags, True)
        if not has_dropout and not may_draw_more:
            yield
            return
        generator = torch.Generator(self._device)
        # Python's hash of three integers: another one for every stage and micro-batch, the same in every run.
        generator.manual_seed(hash((batch_seed, self._stage, micro_batch)) & 0x7FFF_FFFF_FFFF_FFFF)
        dispatch = _SeededDispatch(generator, f"stage {self._stage}") if may_draw_more else None
        with dispatch or nullcontext(), _SeededDropout(generator) if has_dropout else nullcontext():
            yield
        if dispatch is not None:
            self._draws_more[flags] = dispatch.has_drawn


class _SeededDropout(TorchFunctionMode):
    """Replaces `functional.dropout`, and lets everything else through."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:  # noqa: ARG002
        call = self._dropout if func is functional.dropout else func
        return call(*args, **(kwargs or {}))

    def _dropout(self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if not training or p == 0.0:
            return x
        keep = torch.empty_like(x, requires_grad=False).bernoulli_(1.0 - p, generator=self._generator)
        scaled = keep.div_(1.0 - p) if p < 1.0 else keep
        return x.mul_(scaled) if inplace else x * scaled


class _SeededDispatch(TorchDispatchMode):
    """Hands the generator to every operation that draws, and notes whether there was one.

    Source: torch marks such operations with `torch.Tag.nondeterministic_seeded`.
    """

    def __init__(self, generator: torch.Generator, where: str) -> None:
        super().__init__()
        self._generator = generator
        self._where = where
        self.has_drawn = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and torch would import its compiler to say so, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:  # noqa: ARG002
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags or options.get("generator") is not None:
            return func(*args, **options)
        if _drops_nothing(func, args, options):  # attention or an LSTM, whose kernels may drop
            return func(*args, **options)
        self.has_drawn = True
        if func is torch.ops.aten.native_dropout.default:  # what functional.dropout is on a GPU
            return self._native_dropout(*args, **options)
        packet = func.overloadpacket
        if not any("generator" in _arguments(getattr(packet, name)) for name in packet.overloads()):
            raise ValueError(
                f"{self._where} calls {packet.__name__}, which draws inside a kernel that takes no "
                "generator, so its numbers would depend on the threads; use attn_implementation='eager' for attention, "
                "or set its dropout to 0"
            )
        return packet(*args, **options | {"generator": self._generator})

    def _native_dropout(self, x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
        keep = torch.empty_like(x, dtype=torch.bool).bernoulli_(1.0 - p if train else 1.0, generator=self._generator)
        return x * keep / (1.0 - p if p < 1.0 else 1.0), keep


def _drops_nothing(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    values = dict(zip(_arguments(func), args, strict=False)) | dict(options)
    names = {"dropout_p", "dropout"} & {*_arguments(func)}
    return bool(names) and (values.get("train") is False or not any(values.get(name, 0.0) for name in names))


def _arguments(overload: Any) -> list[str]:
    return [argument.name for argument in overload._schema.arguments]
