"""Our schedules through torch.distributed.pipelining's reader, validator and writer, and its orders through ours."""

from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.pipelining import schedules as theirs
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

from pllab.schedule import FAMILIES, Schedule, dual_pipe_v, gathers, interleaved, interleaved_zero_bubble
from pllab.simulate import Costs, simulate

SIZES = [(1, 1), (1, 3), (2, 1), (2, 4), (3, 2), (3, 7), (4, 8), (5, 4)]


def reader(schedule: Schedule) -> theirs.PipelineScheduleMulti:
    """A multi-stage schedule of torch's without stages: enough to load, validate and dump an order."""
    made = object.__new__(theirs.PipelineScheduleMulti)
    made.pipeline_order = {}
    made.pp_group_size, made._num_stages = schedule.num_ranks, schedule.num_stages
    made._n_microbatches, made._stages = schedule.num_microbatches, []
    return made


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_torch_reads_accepts_and_writes_back_ours(name: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    schedule = FAMILIES[name].make(*sizes)
    ours, back = tmp_path / "ours.csv", tmp_path / "back.csv"
    ours.write_text(schedule.to_csv())
    made = reader(schedule)
    made._load_csv(str(ours))
    assert made.stage_index_to_group_rank == schedule.rank_of_stage
    assert [",".join(map(str, row)) for row in made.pipeline_order.values()] == schedule.to_csv().split()
    made._dump_csv(str(back))
    assert back.read_text().split() == ours.read_text().split()
    again = Schedule.from_csv(back.read_text())
    assert (again.rows, again.overlaps) == (schedule.rows, schedule.overlaps)


@pytest.mark.parametrize("defers", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("sizes", [(1, 3), (2, 4), (3, 7)], ids=str)
def test_we_read_what_torch_s_runtime_writes_by_default(
    name: str, sizes: tuple[int, int], defers: bool, tmp_path: Path
) -> None:
    """With the sends, receives, gathering and reducing that its runtime adds, where it puts them."""
    schedule = FAMILIES[name].make(*sizes)
    ours, lowered = tmp_path / "ours.csv", tmp_path / "lowered.csv"
    ours.write_text(schedule.to_csv())
    runtime = object.__new__(theirs._PipelineScheduleRuntime)
    vars(runtime).update(vars(reader(schedule)), _defer_pp_recv=defers)
    runtime._load_csv(str(ours))
    runtime._dump_csv(str(lowered))
    added = {"UNSHARD", "REDUCE_GRAD", *(["SEND_F", "RECV_B"] if schedule.num_ranks > 1 else [])}
    assert all(word in lowered.read_text() for word in added)
    again = Schedule.from_csv(lowered.read_text())
    assert (again.rows, again.overlaps) == (schedule.rows, schedule.overlaps)


def torchs(name: str, p: int, m: int, stages_per_rank: int) -> Schedule:
    rows = get_schedule_ops(name, p, m, num_stages_per_rank=stages_per_rank)
    return Schedule.from_csv("\n".join(",".join(map(str, filter(None, row))) for row in rows))


@pytest.mark.parametrize("v", [2, 3])
@pytest.mark.parametrize(
    ("ours", "their_name"),
    [(interleaved, "Interleaved1F1B"), (interleaved_zero_bubble, "InterleavedZeroBubble")],
)
def test_looped_orders_are_torch_s_where_torch_has_one(
    ours: Callable[[int, int, int], Schedule], their_name: str, v: int
) -> None:
    for p, m in [(2, 2), (2, 6), (3, 3), (3, 5), (3, 8), (4, 3), (4, 7), (4, 16), (5, 10), (6, 9), (6, 14)]:
        assert ours(p, m, v) == torchs(their_name, p, m, v)


def test_dual_pipe_v_is_torch_s_with_its_pairs() -> None:
    for p, m in [(1, 4), (2, 4), (3, 6), (3, 11), (4, 12), (6, 13)]:
        ours, torch_order = dual_pipe_v(p, m), torchs("DualPipeV", p, m, 2)
        assert ours.rows == torch_order.rows
        assert ours.overlaps == torch_order.overlaps != frozenset()


@pytest.mark.parametrize("name", FAMILIES)
def test_gathers_are_what_torch_adds_for_sharded_stages_of_which_one_is_whole(name: str) -> None:
    for p, m in [(1, 3), (2, 4), (3, 7), (4, 8)]:
        schedule = FAMILIES[name].make(p, m)
        rows = ([theirs._Action.from_str(str(action)) for action in row] for row in schedule.rows)
        lowered = (theirs._add_unshard_reshard(row, max_active_stages=1) for row in rows)
        assert gathers(schedule) == tuple(sum(str(action).endswith("UNSHARD") for action in row) for row in lowered)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_zbv_is_never_slower_than_torch_s_when_messages_take_no_time(p: int) -> None:
    for m in (1, 2, p, 2 * p - 2, 2 * p - 1, 3 * p):
        their_order = torchs("ZBVZeroBubble", p, m, 2)
        for costs in (Costs(1.0, 1.0, 1.0), Costs(1.0, 1.2, 0.7), Costs(1.0, 1.0, 0.5)):
            assert simulate(FAMILIES["zbv"].make(p, m), costs).makespan <= simulate(their_order, costs).makespan + 1e-9
