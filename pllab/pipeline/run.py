"""One batch on its way through the stages: forward by the clock, then backward by the clock in reverse.

Every stage's graph is cut at its inputs. Forward keeps, per stage and micro-batch, the inputs and outputs of that
piece of graph; backward feeds the output's gradient in and hands the input's gradient to the stage before.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

import torch

from pllab.pipeline.ambient import Ambient
from pllab.pipeline.clock import clock_cycles
from pllab.pipeline.compute import Cell, Upstream, compute
from pllab.pipeline.in_place import unchanged
from pllab.pipeline.microbatch import Tensors
from pllab.pipeline.record import Record
from pllab.pipeline.stage import Saved, Stage, as_inputs
from pllab.pipeline.stream import Base, HostStream, Packet
from pllab.pipeline.worker import Workers
from pllab.schedule import Action, Kind


class Plan(NamedTuple):
    """What a run is told by its pipe."""

    stages: Sequence[Stage]
    streams: Sequence[HostStream]
    ranks: Sequence[int]  # the row of the timeline each stage is drawn in
    workers: Workers
    record: Record
    recompute: bool
    seed: int
    timeout_s: float


class Run:
    """One batch through the pipe; it owns the activations and lets go of them as backward uses them up."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ambient = Ambient.here()
        self._saved: dict[Cell, Saved] = {}
        self._arrivals: dict[Cell, Future[Packet]] = {}
        self._num_microbatches = 0
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let the tasks that still wait in the queues end without running."""
        self._stopped.set()

    def check_open(self, workers: Workers | None) -> None:
        """Refuse to go on with workers that have ended.

        Raises:
            RuntimeError: the pipe was closed since this batch began.
        """
        if workers is not self._plan.workers:
            raise RuntimeError("the pipe was closed after this batch went forward; call backward before close()")

    def forward(self, micro_batches: Sequence[Tensors]) -> list[Packet]:
        """Run the clock cycles; return the last stage's packets in order of micro-batches."""
        self._num_microbatches = len(micro_batches)
        first: Base | None = None
        for stream in self._plan.streams:
            stream.begin()
            first = stream.start_clock(first)
        self._prepare([(i, 0) for i in range(len(micro_batches))], [_packet(batch) for batch in micro_batches])
        finished = self._sweep(self._forward_cell, self._ticks())
        last = len(self._plan.stages) - 1
        return [finished[i, last] for i in range(len(micro_batches))]

    def backward(self, grads: Sequence[Packet]) -> list[Packet]:
        """Run the clock cycles in reverse from the gradients of the outputs; return those of the inputs.

        Raises:
            RuntimeError: backward was called on this batch before.
        """
        if len(self._saved) < self._num_microbatches * len(self._plan.stages):
            raise RuntimeError(
                "this batch went backward before and its activations are gone; call the pipe again for a new graph"
            )
        last = len(self._plan.stages) - 1
        self._prepare([(i, last) for i in range(len(grads))], grads)
        finished = self._sweep(self._backward_cell, reversed(list(self._ticks())))
        return [finished[i, 0] for i in range(len(grads))]

    def _ticks(self) -> Iterator[list[Cell]]:
        return clock_cycles(self._num_microbatches, len(self._plan.stages))

    def _prepare(self, cells: Sequence[Cell], packets: Sequence[Packet]) -> None:
        """Every cell gets a place where its input arrives; the first ones have it already."""
        self._arrivals = {cell: Future() for tick in self._ticks() for cell in tick}
        for cell, packet in zip(cells, packets, strict=True):
            self._arrivals[cell].set_result(packet)

    def _sweep(self, work: Callable[[int, int], Packet], ticks: Iterator[list[Cell]]) -> dict[Cell, Packet]:
        plan = self._plan
        for stream in plan.streams:
            stream.begin()
        try:
            cells = [cell for tick in ticks for cell in tick]
            return compute(work, cells, plan.workers.in_queues, plan.workers.out_queues, plan.timeout_s)
        finally:
            for stream in plan.streams:
                stream.end()

    def _forward_cell(self, i: int, j: int) -> Packet:
        stage, stream = self._plan.stages[j], self._plan.streams[j]
        with (
            self._passing_on((i, j), (i, j + 1)) as (packet, pass_on),
            self._ambient.entered(),
            stream.running(),
        ):
            tensors = stream.fetch(packet, stage.device)
            inputs = as_inputs(tensors, packet.needs_grad)
            keep = torch.is_grad_enabled()
            again = inputs if keep and self._plan.recompute else ()
            with (
                self._timed(j, Kind.F, i),
                torch.set_grad_enabled(keep and not self._plan.recompute),
                unchanged(again, f"stage {j}"),
            ):
                outputs = stage.forward(inputs, self._plan.seed, i)
            if keep:
                self._saved[i, j] = Saved(inputs, None if self._plan.recompute else outputs)
            needs_grad = [keep and self._wants_grad(j, inputs, output) for output in outputs]
            return pass_on(Packet([output.detach() for output in outputs], needs_grad, stream.ready()))

    def _backward_cell(self, i: int, j: int) -> Packet:
        stage, stream = self._plan.stages[j], self._plan.streams[j]
        with (
            self._passing_on((i, j), (i, j - 1)) as (packet, pass_on),
            self._ambient.entered(),
            stream.running(),
        ):
            grads = stream.fetch(packet, stage.device)
            inputs, outputs = self._saved.pop((i, j))
            if outputs is None:
                with self._timed(j, Kind.R, i), torch.enable_grad():
                    outputs = stage.forward(inputs, self._plan.seed, i)
            with self._timed(j, Kind.B, i):
                input_grads = stage.backward(inputs, outputs, grads)
            return pass_on(Packet(input_grads, (), stream.ready()))

    def _wants_grad(self, j: int, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> bool:
        """Whether the next stage must send a gradient back; with recompute the graph is not there to ask."""
        if not self._plan.recompute:
            return output.requires_grad
        trained = any(parameter.requires_grad for parameter in self._plan.stages[j].module.parameters())
        return output.is_floating_point() and (trained or any(tensor.requires_grad for tensor in inputs))

    @contextmanager
    def _timed(self, j: int, kind: Kind, i: int) -> Iterator[None]:
        plan, start = self._plan, self._plan.streams[j].mark()
        yield
        plan.record.add(plan.ranks[j], Action(j, kind, i), plan.streams[j], start, plan.streams[j].mark())

    @contextmanager
    def _passing_on(self, cell: Cell, to: Cell) -> Iterator[tuple[Packet, Callable[[Packet], Packet]]]:
        """Wait for this cell's input; pass its output, or its failure, to the cell that waits for it."""
        arrival, receiver = self._arrivals[cell], self._arrivals.get(to)

        def pass_on(packet: Packet) -> Packet:
            if receiver is None:
                return packet
            receiver.set_result(packet)
            return Packet(())  # the receiver owns it now

        try:
            packet = _wait(arrival, cell, self._plan.timeout_s)
            del self._arrivals[cell], arrival  # the packet's tensors go as soon as this cell has used them
            if self._stopped.is_set():
                raise Upstream("the run was stopped")
            yield packet, pass_on
        except BaseException as error:
            if receiver is not None:
                receiver.set_exception(Upstream(f"not run, because {cell} failed: {error}"))
            raise


def _wait(arrival: Future[Packet], cell: Cell, timeout_s: float) -> Packet:
    try:
        return arrival.result(timeout_s)
    except TimeoutError:
        raise Upstream(f"the input of {cell} did not arrive within {timeout_s:g} s") from None


def _packet(batch: Tensors) -> Packet:
    """A micro-batch as the caller made it, with the event after which its tensors are there."""
    ready = None
    for tensor in batch:
        if tensor.is_cuda:
            ready = torch.cuda.current_stream(tensor.device).record_event()
    return Packet([tensor.detach() for tensor in batch], [tensor.requires_grad for tensor in batch], ready)
