"""GPU traces made after Kineto's format: kernels, and the launches whose correlation they have."""

import pytest

from pllab.schedule import gpipe, one_f_one_b
from pllab.simulate import Costs, simulate
from pllab.traces import read_trace
from tests.traces.files import annotation, same_times, trace_of, write

COMPUTE, MESSAGES = 7, 20  # numbers of streams
RUN = simulate(one_f_one_b(2, 3), Costs(0.004, 0.003, 0.002, p2p=0.001))
LATE_US = 700.0  # from the launch to the first kernel


def kernel(name, start, length, number, stream=COMPUTE):
    args = {"device": 0, "stream": stream, "correlation": number, "External id": number}
    return {**annotation(name, start, length), "cat": "kernel", "pid": 0, "tid": stream, "args": args}


def launch(start, number, thread=7):
    args = {"correlation": number, "External id": number}
    return {**annotation("cudaLaunchKernel", start, 3.0), "cat": "cuda_runtime", "tid": thread, "args": args}


def on_gpu(content, kinds="FB"):
    """The CPU issues each span in 50 microseconds; its two kernels take its time, and a message is sent beside them.

    Backward kernels are launched by a thread of autograd. Kineto also repeats a span's name on the streams.
    """
    content["distributedInfo"]["backend"] = "nccl"
    spans = [e for e in content["traceEvents"] if e["name"].startswith("PP:") and e["name"][4] in "FB"]
    made = []
    for number, span in enumerate(spans, start=100):
        start, length, is_forward = span["ts"] + LATE_US, span["dur"], span["name"][4] == "F"
        span |= {"dur": 50.0}
        if span["name"][4] in kinds:
            made += [launch(span["ts"] + 10 + 30 * half, 2 * number + half, 8 - is_forward) for half in (0, 1)]
            made += [kernel("gemm", start, length / 2, 2 * number)]
            made += [kernel("gemm", start + length / 2, length / 2, 2 * number + 1)]
        made += [launch(span["ts"] + 45, 9000 + number)]
        message = ("ncclDevKernel_SendRecv", "oneCCL_sendrecv")[number % 2]
        made += [kernel(message, start - 300, length + 500, 9000 + number, MESSAGES)]
        made += [launch(span["ts"] + 60, 5000 + number)]  # after the span: the optimizer's, say
        made += [kernel("adam", start + length, 5.0, 5000 + number)]
        made += [annotation(span["name"], start - 300, length + 500) | {"cat": "gpu_user_annotation", "pid": 0}]
    content["traceEvents"] += made
    return content


def lanes(run, change=lambda content: content):
    """The ranks of a run as the lanes of one process beside a GPU: each has a thread and a stream."""
    contents = [change(trace_of(run, lane, profiled=False)) for lane in range(2)]
    for event in contents[1]["traceEvents"]:
        if event["ph"] == "X":
            event |= {"tid": event["tid"] + 100, "ts": event["ts"] + 1e6}
            if "args" in event:
                event["args"]["correlation"] += 100_000
    contents[0]["traceEvents"] += contents[1]["traceEvents"]
    return contents[0] | {"deviceProperties": [{"name": "GPU"}], "distributedInfo": None}


def test_on_a_gpu_the_time_of_a_span_is_that_of_its_kernels(tmp_path):
    recorded = read_trace(write(tmp_path, [on_gpu(trace_of(RUN, rank)) for rank in range(2)]))
    assert recorded.clock == "kernel"
    assert recorded.note == "kernel time, from the first to the last kernel of each span on the GPU"
    assert recorded.schedule == one_f_one_b(2, 3)
    assert same_times(recorded.timeline, RUN) < 1e-6
    assert all(span.action.kind in "FB" for span in recorded.timeline.spans), "messages run on the CPU's clock"


def test_without_the_kernels_of_a_span_all_times_are_those_of_the_cpu_and_the_note_says_so(tmp_path):
    recorded = read_trace(write(tmp_path, [on_gpu(trace_of(RUN, rank), kinds="F") for rank in range(2)]))
    assert recorded.clock == "issue"
    assert recorded.note.startswith("issue time, when the CPUs issued work and not when the GPUs did it: some spans")
    assert {round(span.duration * 1e6) for span in recorded.timeline.spans if span.action.kind in "FB"} == {50}


def test_a_kernel_of_lanes_on_a_gpu_is_of_the_lane_on_whose_stream_it_is(tmp_path):
    """All lanes issue at once here."""
    run = simulate(one_f_one_b(2, 3), Costs(0.004, 0.003, 0.002))
    recorded = read_trace(write(tmp_path, [lanes(run, on_gpu)]))
    assert recorded.clock == "kernel"
    assert same_times(recorded.timeline, run) < 1e-6


def test_beside_a_gpu_that_nobody_uses_the_time_is_that_of_the_cpu(tmp_path):
    of_gloo = [trace_of(RUN, rank) | {"deviceProperties": [{"name": "GPU"}]} for rank in range(2)]
    for contents in (of_gloo, [lanes(RUN)]):
        recorded = read_trace(write(tmp_path, contents))
        assert (recorded.clock, recorded.note) == ("host", "the time of the CPUs that did the work")


def test_clocks_of_gpus_that_do_not_fit_are_refused(tmp_path):
    contents = [on_gpu(trace_of(RUN, rank, late_us=-6000.0 * rank)) for rank in range(2)]
    with pytest.raises(ValueError, match=r"the clock of rank1.json is at least 1 ms behind that of rank0.json"):
        read_trace(write(tmp_path, contents))


def test_without_the_activity_cuda_it_is_issue_time_and_may_come_before_that_of_its_input(tmp_path):
    run = simulate(gpipe(2, 2))
    contents = [trace_of(run, rank, late_us=-9e6 * rank) for rank in range(2)]
    for content in contents:
        content["distributedInfo"]["backend"] = "nccl"
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.schedule == gpipe(2, 2) and recorded.clock == "issue"
    assert "record with ProfilerActivity.CUDA" in recorded.note
