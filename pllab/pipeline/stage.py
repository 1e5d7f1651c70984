"""What a stage does: F, B, I, W and R on one micro-batch after another. It knows nothing about its neighbours.

The graph of every stage is cut at its inputs. F keeps the inputs and outputs of its piece of graph. B (or I, and later
W) goes back through it, from the gradients of the outputs to those of the inputs. With recomputation F keeps only the
inputs, and R makes the piece of graph again just before the backward.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from pllab.arguments import require
from pllab.pipeline.batches import Score, Tensors, as_tuple, single
from pllab.pipeline.engine import NOTHING, Packet
from pllab.pipeline.randomness import Draws
from pllab.pipeline.split import as_sequential
from pllab.pipeline.split_backward import Rest, backward_input, backward_weight
from pllab.pipeline.tied import Shared, shared_parameters
from pllab.schedule import Action, Kind

_SAME = 1e-5  # relative; kernels of a GPU may add up in another order


class Stage:
    """Consecutive layers on one device; made once, run for every batch.

    `shared` are the parameters of earlier stages that are in this one too (tied weights).
    """

    def __init__(self, number: int, module: nn.Module, device: torch.device, shared: Sequence[Shared] = ()) -> None:
        self.number = number
        self.module = module
        self.device = torch.device("cpu") if device.type == "cpu" else device  # torch knows lanes as the CPU
        self.shared = [one for one in shared if one.stage == number]
        self.draws = Draws(number, self.module, self.device)
        self.works_in_place = any(getattr(part, "inplace", False) for part in module.modules())


def stages_on(modules: Sequence[nn.Module], devices: Sequence[torch.device]) -> list[Stage]:
    """The stages of a pipeline, each on its device; a parameter that several have is the first one's.

    Raises:
        ValueError: two stages hold the same module.
    """
    chains = [*map(as_sequential, modules)]
    shared, pairs = shared_parameters(chains), zip(chains, devices, strict=True)
    return [Stage(number, chain, device, shared) for number, (chain, device) in enumerate(pairs)]


class _Saved(NamedTuple):
    """What a stage keeps of one micro-batch until its backward; with recompute, sums instead of the outputs."""

    inputs: list[torch.Tensor]
    outputs: Tensors | None
    sums: Sequence[torch.Tensor] = ()


class StageWork:
    """One stage in one batch: it owns the activations, and frees them as backward uses them.

    The last stage of an executor has a `score`, which turns its outputs into the loss. With `recompute` a backward is
    two actions, `R` and then itself. Without autograd (`torch.no_grad`) nothing is kept. What is asked of all modules
    of a stage is asked here, once for all micro-batches. In place of an earlier stage's parameter stands a leaf of the
    same values, its shadow.

    Raises:
        ValueError: the layers mix the rows of a batch, or another parameter stands where a shared one was.
    """

    def __init__(self, stage: Stage, seed: int, *, score: Score | None = None, recompute: bool = False) -> None:
        _check_rows_stay_apart(stage.number, stage.module)
        self._stage = stage
        self._seed = seed
        self._score = score
        self._recompute = recompute
        self._mode = stage.draws.mode()
        for one in stage.shared:
            is_shared = stage.module.get_parameter(one.name) is one.parameter
            told = f"{one.name} of stage {stage.number} is no longer the parameter of an earlier stage that it was"
            require(is_shared, f"{told}; make the pipeline anew, or load the state without assign")
        self._shadows = {one.name: one.shadow(stage.device) for one in stage.shared}
        self._saved: dict[int, _Saved] = {}
        self._rests: dict[int, list[Rest]] = {}

    def gradient_of(self, shared: Shared) -> torch.Tensor | None:
        """What this batch adds to the gradient of an earlier stage's parameter, on the parameter's device."""
        gradient = self._shadows[shared.name].grad
        return None if gradient is None else gradient.to(shared.parameter.device)

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself, after an R if its forward is computed again: `0R1` and `0B1` for `0B1`."""
        again = self._recompute and action.kind in (Kind.B, Kind.I)
        return (action._replace(kind=Kind.R), action) if again else (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run one part on the packet that the action takes; return the packet that it makes."""
        match action.kind:
            case Kind.F:
                return self._forward(action.microbatch, packet)
            case Kind.R:
                return self._forward_again(action.microbatch, packet)
            case Kind.W:
                backward_weight(self._rests.pop(action.microbatch))
                return NOTHING
            case _:
                return self.backward(action.microbatch, packet, whole=action.kind is Kind.B)

    def run(self, microbatch: int, inputs: Sequence[torch.Tensor]) -> Tensors:
        """Run the layers, and the loss if there is a score; a single tensor goes in as it is, several as one tuple.

        Seed, stage and micro-batch decide the random draws. A stage with a layer that works in place gets a copy: what
        came in may be a leaf, or needed again.

        Raises:
            ValueError: the layers do not return tensors, or the loss is not one real number.
        """
        stage = self._stage
        if stage.works_in_place:
            inputs = [tensor.clone() for tensor in inputs]
        with stage.draws.seeded(self._seed, microbatch, self._mode):
            value = single(tuple(inputs))
            result = functional_call(stage.module, self._shadows, (value,)) if self._shadows else stage.module(value)
        outputs = as_tuple(result, f"stage {stage.number}")
        return outputs if self._score is None else (self._score.of(microbatch, outputs),)

    def _forward(self, microbatch: int, packet: Packet) -> Packet:
        pairs = zip(packet.tensors, packet.needs_grad, strict=True)
        # Fresh leaves: the graph of each stage begins here.
        inputs = [tensor.detach().requires_grad_(flag) for tensor, flag in pairs if tensor is not None]
        trains = torch.is_grad_enabled()
        again = trains and self._recompute
        buffers = [*self._stage.module.buffers()] if again else []
        before = _writes_to(buffers) if again else []
        # To be computed again or not, it makes a graph: without one torch may pick kernels that round otherwise.
        outputs = self.run(microbatch, inputs)
        if again and _writes_to(self._stage.module.buffers()) != before:
            raise ValueError(
                f"stage {self._stage.number} changes a buffer in its forward, and would change it once more when "
                "it is computed again; switch recompute off"
            )
        if trains:
            self._saved[microbatch] = _Saved(inputs, None, _sums(outputs)) if again else _Saved(inputs, outputs)
        needs_grad = [trains and output.requires_grad for output in outputs]
        return Packet([output.detach() for output in outputs], needs_grad)

    def _forward_again(self, microbatch: int, packet: Packet) -> Packet:
        inputs, _, sums = self._saved[microbatch]
        with torch.enable_grad():
            outputs = self.run(microbatch, inputs)
        for before, now in zip(sums, _sums(outputs), strict=True):
            if not torch.allclose(before, now, rtol=_SAME, atol=0.0, equal_nan=True):
                raise ValueError(
                    f"stage {self._stage.number} computed micro-batch {microbatch} again and got another result; let "
                    "its layers draw random numbers with torch alone, overwrite no input and keep no state, or switch "
                    "recompute off"
                )
        self._saved[microbatch] = _Saved(inputs, outputs)
        return packet

    def backward(self, microbatch: int, packet: Packet, whole: bool) -> Packet:
        """Run a micro-batch's backward, or its I alone, from the gradients of its outputs to those of its inputs."""
        inputs, outputs, *_ = self._saved.pop(microbatch)
        assert outputs is not None, "R makes what F did not keep"
        starts, grads = _with_gradient(outputs, packet.tensors)
        if not whole:
            self._rests[microbatch] = backward_input(starts, grads, inputs)
        elif starts:
            torch.autograd.backward(starts, grads)
        return Packet([tensor.grad for tensor in inputs])


def _check_rows_stay_apart(number: int, module: nn.Module) -> None:
    """Refuse batch normalisation by the rows at hand: its statistics would be those of micro-batches."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and (part.training or part.running_mean is None):
            how = "without running statistics" if part.running_mean is None else "in training mode"
            way_out = "" if part.running_mean is None else ", or call its eval()"
            raise ValueError(
                f"stage {number} has a {type(part).__name__} {how}, which mixes the rows of a micro-batch "
                f"where the plain model mixes those of the batch; use LayerNorm or GroupNorm{way_out}"
            )


def _writes_to(buffers: Iterable[torch.Tensor]) -> list[tuple[int, int]]:
    """Each buffer's identity and how many times it was written to; inference tensors cannot be, nor count it."""
    return [(id(buffer), 0 if buffer.is_inference() else buffer._version) for buffer in buffers]


def _sums(outputs: Tensors) -> list[torch.Tensor]:
    """The sum of absolute values of each output: cheap to keep, and different if the result differs."""
    values = (output.detach().resolve_conj() for output in outputs if output.is_floating_point() or output.is_complex())
    parts = (torch.view_as_real(value) if value.is_complex() else value for value in values)
    return [torch.linalg.vector_norm(part, 1, dtype=torch.float64) for part in parts]


def _with_gradient(
    outputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The outputs that have a graph and a gradient, with their gradients."""
    pairs = [(o, g.to(o.dtype)) for o, g in zip(outputs, grads, strict=True) if o.requires_grad and g is not None]
    return [output for output, _ in pairs], [grad for _, grad in pairs]
