"""Files of made-up runs, whose times are known: read, put together, and refused."""

import json
import re

import pytest

from pllab.schedule import FAMILIES, gpipe, one_f_one_b
from pllab.simulate import Costs, estimate, simulate
from pllab.traces import read_trace
from tests.traces.files import annotation, same_times, trace_of, write, write_run

COSTS = Costs(0.0021, 0.0017, 0.0013, p2p=0.0004)
RUN = simulate(one_f_one_b(4, 6), COSTS)
MICROSECOND = 1e-6


@pytest.mark.parametrize("name", FAMILIES)
def test_the_files_of_the_ranks_are_the_run_again(name, tmp_path):
    schedule = FAMILIES[name].make(4, 8)
    run = simulate(schedule, COSTS)
    recorded = read_trace(write_run(tmp_path, run))
    assert recorded.schedule == schedule
    assert same_times(recorded.timeline, run) < MICROSECOND
    assert (recorded.clock, recorded.timeline.engine, recorded.timeline.num_ranks) == ("host", "real", 4)
    costs = estimate([(recorded.schedule, recorded.timeline)])
    assert recorded.timeline.makespan / simulate(recorded.schedule, costs).makespan == pytest.approx(1, abs=1e-4)


def test_files_may_be_compressed_and_in_any_order(tmp_path):
    paths = write(tmp_path, [trace_of(RUN, rank) for rank in range(4)], packed=True)
    recorded = read_trace(reversed(paths))
    assert recorded.schedule == one_f_one_b(4, 6) and same_times(recorded.timeline, RUN) < MICROSECOND


def test_one_rank_alone_is_a_pipeline_too(tmp_path):
    content = trace_of(simulate(gpipe(1, 2)), 0)
    del content["baseTimeNanoseconds"]
    assert read_trace(write(tmp_path, [content])[0]).schedule == gpipe(1, 2)


def test_a_pipeline_may_be_one_process_group_of_a_larger_world(tmp_path):
    run = simulate(gpipe(2, 2), COSTS)
    contents = [trace_of(run, rank) for rank in range(2)]
    for content, rank in zip(contents, (1, 3), strict=True):
        groups = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "1", "pg_desc": "mesh_pp", "ranks": [1, 3]}]
        content["distributedInfo"] |= {"rank": rank, "world_size": 4, "pg_config": groups}
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.schedule == gpipe(2, 2) and same_times(recorded.timeline, run) < MICROSECOND


@pytest.mark.parametrize("profiled", [True, False])
def test_of_several_steps_the_last_complete_one_is_read_or_the_one_asked_for(profiled, tmp_path):
    first = 3 if profiled else 0
    contents = [trace_of(RUN, rank, steps=3, profiled=profiled) for rank in range(4)]
    events = contents[2]["traceEvents"]
    events.remove(next(event for event in reversed(events) if event["name"] == "PP:2B5"))  # the profiler stopped there
    paths = write(tmp_path, contents)
    recorded = read_trace(paths)
    assert (recorded.step, recorded.steps) == (first + 1, (first, first + 1, first + 2))
    assert same_times(recorded.timeline, RUN) < MICROSECOND
    assert read_trace(paths, step=first).step == first
    with pytest.raises(ValueError, match=rf"step {first + 2} is not complete: 2B5 is missing.*record whole steps"):
        read_trace(paths, step=first + 2)
    there = f"{first}, {first + 1}, {first + 2}"
    with pytest.raises(ValueError, match=f"step is 9, and the traces have the steps {there};"):
        read_trace(paths, step=9)


def test_an_evaluation_after_the_step_is_not_taken_for_it(tmp_path):
    contents = [trace_of(RUN, rank, profiled=False) for rank in range(4)]
    for rank, content in enumerate(contents):
        forwards = [event for event in content["traceEvents"] if event["name"].startswith(f"PP:{rank}F")]
        content["traceEvents"] += [{**event, "ts": event["ts"] + 1e6} for event in forwards]
    recorded = read_trace(write(tmp_path, contents))
    assert (recorded.step, recorded.steps) == (0, (0, 1)) and recorded.schedule == one_f_one_b(4, 6)
    with pytest.raises(ValueError, match=r"step 1 is not complete: 0B0 is missing.*record whole steps"):
        read_trace(sorted(tmp_path.glob("*.json")), step=1)


def test_the_wait_of_a_span_for_its_input_is_communication_and_its_work_the_rest(tmp_path):
    """The runtime waits in PP:1F0, and gloo's receive of the last tensor ends when the input is there."""
    run = simulate(gpipe(2, 1), Costs(0.002, 0.001, 0.001))
    contents = [trace_of(run, rank) for rank in range(2)]
    forward = next(event for event in contents[1]["traceEvents"] if event["name"] == "PP:1F0")
    contents[1]["traceEvents"] += [
        annotation("PP:1RECV_F0", forward["ts"] - 1500, 100.0),
        annotation("gloo:recv", forward["ts"] - 1450, 1450.0),
        annotation("gloo:recv", forward["ts"] - 1440, 1000.0),  # a stage may take two tensors
    ]
    forward |= {"ts": forward["ts"] - 1300, "dur": forward["dur"] + 1300}
    recorded = read_trace(write(tmp_path, contents))
    assert same_times(recorded.timeline, run) < MICROSECOND
    waits = [(s.start, s.duration) for s in recorded.timeline.of_rank(1) if s.action.kind == "C" and s.duration > 9e-5]
    assert waits == [pytest.approx((0.0005, 0.0001)), pytest.approx((0.0007, 0.0013))]
    assert "1.3 ms in which spans waited for their input count as communication" in recorded.note


def test_a_step_of_which_the_profiler_saw_the_end_only_is_not_read_with_the_next(tmp_path):
    contents = [trace_of(RUN, rank, steps=2) for rank in range(4)]
    for rank, content in enumerate(contents):
        events = content["traceEvents"]
        second = next(number for number, event in enumerate(events) if event["name"] == "ProfilerStep#4")
        content["traceEvents"] = [
            event
            for n, event in enumerate(events)
            if n > second - 2 or event["name"] in ("ProfilerStep#3", f"PP:{rank}B5")
        ]
    recorded = read_trace(write(tmp_path, contents))
    assert (recorded.step, recorded.steps) == (4, (3, 4)) and same_times(recorded.timeline, RUN) < MICROSECOND


def test_a_span_may_begin_before_its_input_if_the_file_does_not_say_when_it_waited(tmp_path):
    contents = [trace_of(simulate(gpipe(2, 1), COSTS), rank) for rank in range(2)]
    forward = next(event for event in contents[1]["traceEvents"] if event["name"] == "PP:1F0")
    forward |= {"ts": forward["ts"] - 2700, "dur": forward["dur"] + 2700}
    recorded = read_trace(write(tmp_path, contents))
    assert recorded.timeline.of_rank(1)[0].duration == pytest.approx(0.0048)


def renamed(old, new, ranks=slice(None)):
    def change(contents):
        for content in contents[ranks]:
            for event in content["traceEvents"]:
                event["name"] = event["name"].replace(old, new)

    return change


def steps_differ(contents):
    contents[:] = [trace_of(RUN, rank, steps=1 + (rank == 1), profiled=False) for rank in range(4)]


def one_rank_whose_group_it_is(contents):
    """A mesh makes groups along every axis, also along those of one rank."""
    contents[:] = [trace_of(RUN, 0)]
    contents[0]["distributedInfo"]["pg_config"] = [{"pg_name": "1", "pg_desc": "mesh_dp", "ranks": [0]}]


REFUSED = [
    (one_rank_whose_group_it_is, "of 4 ranks 1 are given, without rank 1; give a file of every rank"),
    (lambda c: c.pop(2), "of 4 ranks 3 are given, without rank 2; give a file of every rank"),
    (lambda c: c[1]["distributedInfo"].update(rank=0), "rank0.json and rank1.json are both of rank 0; give one file"),
    (lambda c: c[3]["distributedInfo"].update(world_size=8), "rank2.json is of 4 ranks and rank3.json of 8; give the"),
    (lambda c: c[3]["distributedInfo"].update(rank=5), "of 4 ranks 4 are given, without rank 3"),
    (lambda c: c[1].pop("distributedInfo"), r"rank1.json does not say which rank wrote it \(no distributedInfo\)"),
    (lambda c: c[2].pop("baseTimeNanoseconds"), r"rank2.json does not say when its clock began \(no baseTime"),
    (lambda c: c[2].update(baseTimeNanoseconds="noon"), "baseTimeNanoseconds in rank2.json is 'noon'; give a whole"),
    (renamed("PP:", "step "), "rank0.json has no spans of a pipeline.*Schedule1F1B write none.*to_torch"),
    (renamed("PP:3", "PP:1"), "stage 1 is in rank1.json and in rank3.json; give the files of one pipe"),
    (renamed("PP:2", "PP:4"), "stage 2 is in no file; give the files of all ranks"),
    (renamed("ProfilerStep#3", "ProfilerStep#4", slice(3, 4)), "the ranks have no step in common"),
    (steps_differ, "rank0.json and rank1.json have 1 and 2 steps; record the same steps on every rank"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_files_that_do_not_fit_are_refused_in_one_sentence(change, sentence, tmp_path):
    contents = [trace_of(RUN, rank) for rank in range(4)]
    change(contents)
    with pytest.raises(ValueError, match=sentence) as error:
        read_trace(write(tmp_path, contents))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("rank", "late_us"), [(1, 50_000.0), (1, -50_000.0), (3, 20_000.0), (0, -20_000.0)])
def test_clocks_that_do_not_fit_are_refused_by_how_much_and_between_whom(rank, late_us, tmp_path):
    contents = [trace_of(RUN, each, late_us=late_us if each == rank else 0.0) for each in range(4)]
    sentence = r"the clock of rank(\d).json is at least (\S+) ms behind that of rank(\d).json"
    with pytest.raises(ValueError, match=sentence) as error:
        read_trace(write(tmp_path, contents))
    behind, by_ms, ahead = re.search(sentence, str(error.value)).groups()
    assert int(ahead if late_us > 0 else behind) == rank
    assert by_ms == {50_000.0: "45.4", 20_000.0: "13.6"}[abs(late_us)]  # less two forwards or backwards, and a message


GOOD = json.dumps(trace_of(simulate(gpipe(1, 1)), 0))


def with_number(place, *values):
    return [re.sub(place, rf"\g<1>{value}", GOOD) for value in values]


NO_RANK = with_number('("rank": )0', "1e400", "-1", "true", '"0"', "null", "[]")
LENGTHS = "NaN", "1e400", "1" + "0" * 400, '"3"', r'"\\n"', "true", "null", "-1"
NO_LENGTH = with_number('("name": "PP:0F0".*?"dur": )[0-9.]+', *LENGTHS)
NO_TRACE = r"rank0.json' is no whole trace \(.*\); give one as torch.profiler's export_chrome_trace writes it"
FILES = {
    "": NO_TRACE,
    GOOD[: len(GOOD) // 2]: NO_TRACE,
    "[1, 2]": NO_TRACE,
    '{"traceEvents": 3}': NO_TRACE,
    "[" * 100_000: NO_TRACE,
    b"\xff\xfe\x00": NO_TRACE,
    b"\x1f\x8b\x08\x00broken": NO_TRACE,
    **dict.fromkeys(NO_RANK, "rank in rank0.json is .*; give a whole number of at least 0"),
    **dict.fromkeys(NO_LENGTH, "PP:0F0 starts at .* and lasts .* microseconds"),
    GOOD.replace('"world_size"', '"size"'): r"a part of rank0.json has another form than torch.profiler's \(KeyError",
    # At once, however many are missing.
    GOOD.replace("PP:0B0", "PP:0B999999999"): "step 3 is not complete: 0B0 is missing",
    GOOD.replace(
        '"world_size": 1', '"world_size": 1000000000000'
    ): "of 1000000000000 ranks 1 are given, without rank 1",
}


@pytest.mark.parametrize(("content", "sentence"), FILES.items(), ids=map(str, range(len(FILES))))
def test_a_file_that_is_no_trace_is_refused_in_one_sentence(content, sentence, tmp_path):
    path = tmp_path / "rank0.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=sentence) as error:
        read_trace([path])
    assert "\n" not in str(error.value)


def test_no_file_at_all_is_refused():
    with pytest.raises(ValueError, match="no trace is given; give one file per rank"):
        read_trace(())
