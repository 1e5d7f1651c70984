"""What F, B, I and W do to a real stage, and what it keeps of a micro-batch in between."""

from collections.abc import Sequence

import torch
from torch import nn

from pllab.pipeline.batch import Score
from pllab.pipeline.split_backward import Rest, backward_input, backward_weight
from pllab.pipeline.stage import Saved, Stage, as_inputs
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import NOTHING
from pllab.schedule import Action, Kind


class StageWork:
    """One stage in one step: it owns the activations, and lets go of them as its backward uses them up.

    The last stage has a `score`, which turns its outputs into the loss; its backward begins there.
    """

    def __init__(self, stage: Stage, seed: int, score: Score | None) -> None:
        self._stage = stage
        self._seed = seed
        self._score = score
        self._saved: dict[int, Saved] = {}
        self._rests: dict[int, list[Rest]] = {}

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run the action on what it took; return what it made."""
        if action.kind is Kind.F:
            return self._forward(action.microbatch, packet)
        if action.kind is Kind.W:
            return self._weights(action.microbatch)
        return self._backward(action.microbatch, packet, whole=action.kind is Kind.B)

    def _forward(self, microbatch: int, packet: Packet) -> Packet:
        tensors = [tensor for tensor in packet.tensors if tensor is not None]
        inputs = as_inputs(tensors, packet.needs_grad)
        outputs = self._stage.forward(inputs, self._seed, microbatch)
        if self._score is not None:
            outputs = (self._score.of(microbatch, outputs),)
        self._saved[microbatch] = Saved(inputs, outputs)
        return Packet([output.detach() for output in outputs], [output.requires_grad for output in outputs])

    def _backward(self, microbatch: int, packet: Packet, whole: bool) -> Packet:
        inputs, outputs = self._saved.pop(microbatch)
        assert outputs is not None, "forward keeps its outputs"
        grads = packet.tensors if self._score is None else [self._score.gradient(microbatch)]
        starts, grads = _that_count(outputs, grads)
        if whole:
            if starts:
                torch.autograd.backward(starts, grads)
        else:
            self._rests[microbatch] = backward_input(starts, grads, inputs)
        return Packet([tensor.grad for tensor in inputs])

    def _weights(self, microbatch: int) -> Packet:
        backward_weight(self._rests.pop(microbatch))
        return NOTHING


def _that_count(
    outputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The outputs that have a graph and a gradient, with their gradients."""
    _check_shapes(outputs, grads)
    pairs = zip(outputs, grads, strict=True)
    found = [(output, grad) for output, grad in pairs if output.requires_grad and grad is not None]
    return [output for output, _ in found], [grad for _, grad in found]


def _check_shapes(outputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]) -> None:
    """Refuse the token that a sleeping last stage sends back: it has no loss, and so no gradient."""
    came = [None if grad is None else tuple(grad.shape) for grad in grads]
    made = [tuple(output.shape) for output in outputs]
    if len(came) != len(made) or any(one not in (None, other) for one, other in zip(came, made, strict=True)):
        raise ValueError(
            f"outputs of shapes {made} get gradients of shapes {came}; if the last stage sleeps, let all sleep, "
            "or the last one not"
        )


def as_sequential(module: nn.Module) -> nn.Sequential:
    """A stage as a chain of layers, which it may be already."""
    return module if isinstance(module, nn.Sequential) else nn.Sequential(module)
