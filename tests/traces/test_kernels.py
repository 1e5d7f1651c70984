"""GPU traces made after Kineto's format: annotations on streams, kernels and the launches they belong to.

`gpu_user_annotation` has the name and the External id of the CPU's span; a kernel has the correlation of its launch.
"""

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


def launch(start, number, thread=8):
    args = {"correlation": number, "External id": number}
    return {**annotation("cudaLaunchKernel", start, 3.0), "cat": "cuda_runtime", "tid": thread, "args": args}


def on_gpu(content, *, kernels=True, annotations="FB", ids=True):
    """The CPU issues each span in 50 microseconds; its two kernels take its time, and a message is sent beside them.

    Backward kernels are launched by a thread of autograd, which no annotation knows of.
    """
    content["distributedInfo"]["backend"] = "nccl"
    spans = [e for e in content["traceEvents"] if e["name"].startswith("PP:") and e["name"][4] in "FB"]
    made = []
    for number, span in enumerate(spans, start=100):
        start, length, is_forward = span["ts"] + LATE_US, span["dur"], span["name"][4] == "F"
        span |= {"dur": 50.0} | ({"args": {"External id": number}} if ids else {})
        if kernels:
            made += [launch(span["ts"] + 10, 2 * number), launch(span["ts"] + 40, 2 * number + 1, 8 + is_forward)]
            made += [kernel("gemm", start, length / 2, 2 * number)]
            made += [kernel("gemm", start + length / 2, length / 2, 2 * number + 1)]
            made += [launch(span["ts"] + 45, 9000 + number)]
            made += [kernel("ncclDevKernel_SendRecv", start - 300, length + 500, 9000 + number, MESSAGES)]
            made += [launch(span["ts"] + 60, 5000 + number)]  # after the span: the optimizer's, say
            made += [kernel("adam", start + length, 5.0, 5000 + number)]
        if span["name"][4] in annotations:
            whole = length if is_forward or not kernels else length / 4
            own = {"cat": "gpu_user_annotation", "pid": 0, "args": {"External id": number}}
            sent = annotation(span["name"], start - 300, length + 500) | own | {"tid": MESSAGES}
            made += [*([sent] if kernels else []), annotation(span["name"], start, whole) | own | {"tid": COMPUTE}]
    if not ids:
        for event in made:
            event["args"].pop("External id", None)
    content["traceEvents"] += made
    return content


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(("kernels", "annotations"), [(True, "FB"), (True, "F"), (True, ""), (False, "FB")])
def test_on_a_gpu_the_time_of_a_span_is_that_of_its_kernels(kernels, annotations, ids, tmp_path):
    contents = [on_gpu(trace_of(RUN, rank), kernels=kernels, annotations=annotations, ids=ids) for rank in range(2)]
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.clock == "kernel" and recorded.note.startswith("kernel time, from the first to the last kernel")
    assert recorded.schedule == one_f_one_b(2, 3)
    assert same_times(recorded.timeline, RUN) < 1e-6
    assert all(span.action.kind in "FB" for span in recorded.timeline.spans), "messages run on the CPU's clock"


def test_without_the_kernels_of_a_span_all_times_are_those_of_the_cpu_and_the_note_says_so(tmp_path):
    contents = [on_gpu(trace_of(RUN, rank), kernels=False, annotations="F") for rank in range(2)]
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.clock == "issue"
    assert recorded.note.startswith("issue time, when the CPUs issued work and not when the GPUs did it: 6 of 12 spans")
    assert {round(span.duration * 1e6) for span in recorded.timeline.spans if span.action.kind in "FB"} == {50}


def test_a_gpu_without_the_activity_cuda_is_issue_time(tmp_path):
    contents = [trace_of(RUN, rank) for rank in range(2)]
    for content in contents:
        content["distributedInfo"]["backend"] = "nccl"
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.clock == "issue" and "record with ProfilerActivity.CUDA" in recorded.note


def test_a_gpu_that_gloo_does_not_use_changes_nothing(tmp_path):
    paths = write(tmp_path, [trace_of(RUN, rank) | {"deviceProperties": [{"name": "GPU"}]} for rank in range(2)])
    assert read_trace(paths).clock == "host"


def test_clocks_of_gpus_that_do_not_fit_are_refused(tmp_path):
    contents = [on_gpu(trace_of(RUN, rank, late_us=-6000.0 * rank)) for rank in range(2)]
    with pytest.raises(ValueError, match=r"the clock of rank1.json is at least 1 ms behind that of rank0.json"):
        read_trace(write(tmp_path, contents))


def test_an_issue_may_come_before_the_issue_of_its_input(tmp_path):
    run = simulate(gpipe(2, 2))
    contents = [trace_of(run, rank, late_us=-9e6 * rank) for rank in range(2)]
    for content in contents:
        content["distributedInfo"]["backend"] = "nccl"
    assert read_trace(write(tmp_path, contents)).schedule == gpipe(2, 2)
    for content in contents:
        content["distributedInfo"]["backend"] = "gloo"
    with pytest.raises(ValueError, match="the clock of rank1.json is at least"):
        read_trace(write(tmp_path, contents))
