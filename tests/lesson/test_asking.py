"""Checks that ask: only data comes back, nothing that a solution does to its own process changes its verdict."""

import json
import math
import os
import socket
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from pllab import comm
from pllab.lesson import Outcome, answering, asking, check
from pllab.lesson.encoding import NO_VALUE, Drawn, Odd, decode, encode, write_back
from pllab.lesson.exercise import Case, Exercise, Wrong
from pllab.lesson.verdict import Verdict
from pllab.schedule import Action, Kind, gpipe
from tests.lesson.judge import judged_on
from tests.lesson.variants_09 import cut_and_go_on


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value))))


def classes_in(value):
    """The classes of a value and of all its parts."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return {type(value)} | {kind for part in parts for kind in classes_in(part)}


simple = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    simple,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_plain_values_travel_with_their_classes(value):
    assert repr(there_and_back(value)) == repr(value)


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]
SIZED = [torch.arange(math.prod(shape)).reshape(shape) for shape in ((), (0,), (2, 3))]
LEAF, CONJUGATE = torch.rand(3, 4, requires_grad=True), torch.tensor([1 + 1j]).conj()


@pytest.mark.parametrize(
    "tensor", [*(sized.to(dtype) for sized in SIZED for dtype in DTYPES), LEAF, LEAF.t(), CONJUGATE, CONJUGATE.imag]
)
def test_tensors_travel_bit_for_bit_wherever_they_lie_in_memory(tensor):
    got = there_and_back(tensor)
    assert (got.dtype, got.shape, got.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    assert torch.equal(got, tensor)


class Anything:
    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


class Liar(Anything, int):
    pass


class LyingList(Anything, list):
    pass


@pytest.mark.parametrize("value", [Liar(3), LyingList([1]), {1: Liar(2)}, (Liar(1), 2), Anything()])
def test_no_class_of_the_learners_comes_back(value):
    assert classes_in(there_and_back(value)) <= {int, list, dict, tuple, Odd}


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (Fraction(1, 4), 0.25),
        (np.float64(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (np.int64(3), 3),
        (range(3), [0, 1, 2]),
        ({1, 2}, {1, 2}),
        ({frozenset({1}), frozenset()}, {frozenset({1}), frozenset()}),
        ({frozenset({1}): 2}, {frozenset({1}): 2}),
        (deque([1, 2]), [1, 2]),
        ({2: 1, 1: 0}.keys(), [2, 1]),
        ({2: 1, 1: 0}.values(), [1, 0]),
        (gpipe(2, 2), gpipe(2, 2)),
        ([Action(0, Kind.F, 1)], [Action(0, Kind.F, 1)]),
        (Kind.B, Kind.B),
    ],
)
def test_numbers_of_other_libraries_are_numbers_and_a_schedule_is_one(value, got):
    assert there_and_back(value) == got
    assert type(there_and_back(value)) is type(got)


def test_what_does_not_travel_is_named():
    assert "object at" in there_and_back(object()).shown
    assert "bits" in there_and_back(10**5000).shown
    assert isinstance(there_and_back(lambda: 0), Odd)


def test_an_iterator_is_drawn_and_ends():
    def same_list():
        filled = []
        for number in range(3):
            filled[:] = [number]
            yield filled

    drawn = there_and_back(same_list())
    assert isinstance(drawn, Drawn) and list(drawn) == [[0], [1], [2]] and drawn.later == [[2]] * 3
    assert not isinstance(drawn, list | tuple), "whoever asks for a list is not given an iterator"
    assert len(list(there_and_back(iter(int, 1)))) == 20_000


TOO_SHORT = {"tensor": ["float32", [9], False, "AAAA"]}
OF_NO_MODULE = {"record": ["pllab.lesson.exercises.nothing:Ran", {}]}


@pytest.mark.parametrize("told", [TOO_SHORT, OF_NO_MODULE, {"record": 3}, {"a": 1, "b": 2}, {"x": []}])
def test_garbage_is_no_value(told):
    with pytest.raises(NO_VALUE):
        decode(told)


# Solutions of exercise 08.1, which is asked: `clock_cycles(num_batches, num_partitions)`.


def right(m, p):
    return [[(t - j, j) for j in range(p) if 0 <= t - j < m] for t in range(m + p - 1)]


def patches_python_and_the_verdict(m, p):
    import builtins

    from pllab.lesson import asking, exercise

    asking.Solution.__call__ = lambda *_: None
    exercise.Wrong.__init__ = lambda *_: None
    builtins.len, builtins.sorted, builtins.isinstance = (lambda _: 0), (lambda _: []), (lambda *_: True)
    return [[]]


def writes(words):
    def by_hand(m, p):
        for descriptor in range(3, 100):
            try:
                os.write(descriptor, words)
            except OSError:
                pass
        return [[]]

    return by_hand


def many(m, p):
    return "x" * (1 << 22)


def test_no_wrong_value_passes_whatever_the_solution_does(monkeypatch):
    monkeypatch.setattr(asking, "_MOST_BYTES", 1 << 20)
    answers = b'{"ready": true}\n{"value": [[]], "after": [1, 1]}\n', b'{"wrong": ["", ""]}\n' * 10
    cheats = [patches_python_and_the_verdict, *map(writes, answers), many]
    for cheat in [lambda m, p: LyingList(), lambda m, p: Anything(), *cheats]:
        verdict = check("08.1", cheat)
        assert verdict.outcome in (Outcome.NOT_YET, Outcome.NOT_ATTEMPTED), str(verdict)
        assert cheat is not many or verdict.hint_id == "crashed", "too long an answer ends the conversation"
    assert check("08.1", right).outcome is Outcome.RIGHT


def test_a_solution_may_use_what_the_learner_has_already():
    def forward(x, split_size, partitions, devices, compute):
        from pllab.lesson import mine

        batches = list(x.split(split_size))
        for cycle in mine("08.1")(len(batches), len(partitions)):
            compute(batches, cycle)
        return torch.cat(batches)

    assert str(check("09.3", forward).outcome) == "right"


@pytest.mark.parametrize(
    ("cheat", "words"),
    [
        (lambda *_: import_module("pllab.lesson.exercises.lesson_11_halves"), "ModuleNotFoundError"),
        (lambda *_: import_module("pllab.lesson").exercises, "no attribute 'exercises'"),
    ],
)
def test_the_room_of_the_checks_is_closed_also_after_a_program_of_a_case(cheat, words):
    verdict = check("11.1", cheat)
    assert verdict.hint_id == "raised" and words in verdict.hint, str(verdict)


def test_what_a_notebook_has_set_in_torch_changes_no_verdict_and_stays():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            verdict = check("09.4", cut_and_go_on)
            assert not torch.is_grad_enabled()
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert verdict.outcome is Outcome.RIGHT, str(verdict)
    assert torch.equal(torch.get_rng_state(), state)


READY, _WRITING = socket.socketpair()
_WRITING.send(b"there")


def rank(**told):
    """The end of a conversation with a rank that has something to say, which is for ever the same."""
    return Mock(fileno=READY.fileno, has_word=False, receive=lambda _: told, is_starved=lambda _: False)


def raised(name, text):
    return rank(raised={"kinds": [name], "shown": f"{name}: {text}"})


def test_the_rank_that_failed_is_named_and_not_one_that_only_lost_it():
    ranks = [raised("PeerError", "rank 1 went away"), raised("KeyError", "'x'")]
    with pytest.raises(comm.RankError, match="rank 1 raised KeyError: 'x'"):
        asking._answers(ranks, 5.0)


def test_a_rank_that_tells_nothing_of_use_is_not_waited_for():
    with pytest.raises(asking.Ended, match="ended the conversation"):
        asking._answers([rank(ready=True)], 5.0)


def test_a_rank_that_talks_past_the_deadline_is_late(monkeypatch):
    """One that always has something to say, and never a whole word."""
    monkeypatch.setattr(asking, "_GRACE_S", 0.0)
    mumbles = rank()
    mumbles.receive = Mock(side_effect=(time.sleep(0.01) for _ in range(1000)))  # then nobody kept the deadline
    with pytest.raises(comm.RankError, match="had not finished after 0.1 s"):
        asking._answers([mumbles], 0.1)


@contextmanager
def conversation(folder, said=b""):
    """A conversation whose other end has said this, and stays open."""
    with ExitStack() as ending:

        def start(_, *words, pass_fds, **options):
            ending.enter_context(socket.socket(fileno=os.dup(pass_fds[0]))).sendall(said)
            return Mock(returncode=0)

        yield ending.enter_context(closing(asking.Conversation(Mock(start=start), folder, {})))


def test_an_answer_that_came_with_the_first_word_is_heard(tmp_path):
    both = b"".join(json.dumps(told).encode() + b"\n" for told in ({"ready": True}, {"value": encode(3)}))
    with conversation(tmp_path, both) as line:
        line.wait_until_ready()
        assert asking._answers([line], 1.0) == [3]


def test_who_says_no_whole_word_until_the_deadline_has_said_none(tmp_path):
    with conversation(tmp_path) as line, line._line:
        line._line = Mock(fileno=READY.fileno, recv=Mock(side_effect=[*[b" "] * 1000, b"{}\n"]))
        assert line.receive(0.0) is None


def test_what_the_function_took_away_from_an_argument_is_gone_here_too():
    items, table = [1, 2, 3], {"kept": 1, "removed": 2}
    write_back(items, [3])
    write_back(table, {"kept": 4})
    assert (items, table) == ([3], {"kept": 4})


def test_arguments_come_back_if_the_function_wrote_into_them():
    """A True in place of a 1 has changed, although the two are equal."""

    def writes(items, item):
        items[0] = item

    asked = [{"args": [[1], item], "kwargs": encode({})} for item in (1, 2, True)]
    told = [answering._called(None, None, writes, question)["after"] for question in asked]
    assert str(told) == "[None, [[2], 2], [[True], True]]"


def test_a_check_builds_no_class_that_an_exercise_has_only_imported():
    """Nor anything but a record: the child names classes as it likes."""
    for name in ("lesson_09_cut:NamedTuple", "lesson_09_step:Step", "lesson_08_clock:Drawn"):
        assert isinstance(decode({"record": [f"pllab.lesson.exercises.{name}", {}]}), Odd), name


def test_equality_that_says_yes_to_everything_hides_no_shared_memory():
    def one_tensor(first, last):
        torch.equal = lambda *_: True
        zero = torch.zeros_like(first)
        first.grad = last.grad = sum(copy.grad if copy.grad is not None else zero for copy in (first, last))

    assert check("07.3", one_tensor).hint_id == "one_tensor"


# Exercises made up for the conversation itself.


@dataclass(frozen=True)
class MadeUp(Exercise):
    """Its own cases in place of those of its file."""

    cases: tuple[Case, ...] = ()


def verdict_on(case: Case, solution: object, **options: object) -> Verdict:
    return judged_on(MadeUp("00.0", "Made up", 1, "share", cases=(case,), **options), solution)


def answer_to(ask, solution, **options):
    """What a case got that asks once; its verdict if it got nothing."""
    got = []
    verdict = verdict_on(Case("it answers", lambda asked: got.append(ask(asked))), solution, **options)
    return got[0] if got else verdict


def test_a_function_of_the_case_is_called_here_and_what_it_changes_comes_back():
    heard = []

    def add(items, number):
        heard.append(os.getpid())
        items.append(number)
        return len(items)

    items = [1]
    assert answer_to(lambda asked: asked(items, add), lambda items, add: add(items, number=5)) == 2
    assert (items, heard) == ([1, 5], [os.getpid()])


def test_what_a_call_writes_into_a_view_is_in_what_shares_its_memory():
    def doubles(tensor):
        tensor *= 2

    def shares(double, read):
        whole, array = torch.tensor([1.0, 2.0]), np.ones(1, np.float32)
        double(whole.view(2, 1)), double(tensor=torch.from_numpy(array)), read(whole.new_ones(1).expand(3))
        return [*whole.tolist(), *array.tolist()]

    assert answer_to(lambda asked: asked(doubles, torch.numel), shares) == [2.0, 4.0, 2.0]


def test_what_a_function_of_the_case_refuses_cannot_be_caught():
    def refuse():
        raise Wrong("refused", "no")

    def swallows(ask):
        try:
            ask()
        except BaseException:
            return 1

    assert answer_to(lambda asked: asked(refuse), swallows).hint_id == "refused"


def test_an_exception_is_of_pythons_own_class_and_what_is_refused_for_it_has_the_learners_line():
    def case(solution):
        try:
            solution()
        except KeyError:
            raise Wrong("no_key", "It needs no key.") from None

    class Own(KeyError):
        pass

    def fails():
        raise Own("x")

    verdict = verdict_on(Case("", case), fails)
    assert verdict.hint_id == "no_key" and verdict.where.endswith('of fails: raise Own("x")')


def waits():
    while True:
        pass


def raises_two():
    raise ExceptionGroup("two", [ValueError()])


@pytest.mark.parametrize("fails", [lambda: b"\xff".decode(), raises_two])
def test_an_exception_that_a_text_does_not_make_is_still_one(fails):
    verdict = answer_to(lambda asked: asked(), fails)
    assert verdict.hint_id == "raised" and "Your function raised" in verdict.hint
    assert f"of {fails.__name__}" in verdict.where


def test_what_a_function_of_the_check_cannot_take_is_raised_in_the_learners_line():
    def gives_a_number(sends):
        sends(1.0)

    verdict = answer_to(lambda asked: asked(lambda tensor: tensor.detach()), gives_a_number)
    assert verdict.hint_id == "raised" and verdict.where.endswith("of gives_a_number: sends(1.0)")


def test_grad_mode_left_off_by_one_question_is_on_in_the_next():
    def looks():
        is_on = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        return is_on

    assert answer_to(lambda asked: [asked(), asked()], looks) == [True, True]


def test_a_function_may_ask_back_from_several_threads():
    def in_threads(times_ten):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(times_ten, range(4)))

    assert answer_to(lambda asked: asked(lambda number: number * 10), in_threads) == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("is_starved", "on_hang", "hint_id"), [(False, None, "hang"), (False, ("endless", ""), "endless"), (True, None, "")]
)
def test_a_function_that_never_answers_is_late_unless_others_had_the_machine(monkeypatch, is_starved, on_hang, hint_id):
    monkeypatch.setattr(asking, "is_starved", lambda pid, wall_s: is_starved)
    verdict = verdict_on(Case("it ends", lambda asked: asked(), on_hang), waits, deadline_s=0.3)
    assert verdict.outcome is (Outcome.UNDECIDED if is_starved else Outcome.NOT_YET)
    assert verdict.hint_id == hint_id
    assert is_starved or verdict.where.endswith("of waits")
    assert is_starved == ("other programs had the machine" in str(verdict))


def test_who_asks_back_for_ever_is_late(monkeypatch, tmp_path):
    monkeypatch.setattr(asking, "_MOST_CALLS", 1000)
    call, left_s = {"call": 0, "args": [], "kwargs": {"dict": []}}, list[float]()
    line = Mock(receive=lambda given_s: left_s.append(given_s) or call, late=lambda _: asking.Ended("hang", ""))
    monkeypatch.setattr(asking, "Conversation", lambda *_, **__: line)
    solution, calls = asking.Solution(None, tmp_path, {}, None), []
    solution.begin(20.0)
    with pytest.raises(asking.Ended):
        solution(lambda: calls.append(0))
    assert len(calls) == 1000 and left_s[1] == 20.0 > left_s[-1]


def test_who_leaves_the_conversation_and_stays_is_told_so():
    hint = answer_to(lambda asked: asked(), lambda: [os.closerange(3, 256), time.sleep(60)]).hint
    assert hint.startswith("The process that ran your function left the conversation before the check was over")


def test_a_process_that_never_comes_to_the_function_is_not_judged(monkeypatch):
    monkeypatch.setattr(asking, "START_S", -1.0)
    assert answer_to(lambda asked: asked(), lambda: None).outcome is Outcome.UNDECIDED


# Ranks.


def sum_of_ranks(rank, world_size, solution):
    x = torch.tensor([float(rank)])
    comm.all_reduce(x)
    return solution(x.item(), world_size)


def seen_on_ranks(solution, **options):
    """What the ranks of a world of two saw, as a case sees it."""
    return answer_to(lambda asked: asked.on_ranks(sum_of_ranks, 2, **options), solution)


def test_an_answer_counts_when_its_rank_has_ended_before_anybody_listened(monkeypatch):
    listen = asking._answers

    def late(ranks, timeout_s):
        for rank in ranks:
            rank._process.wait(30.0)
        return listen(ranks, timeout_s)

    monkeypatch.setattr(asking, "_answers", late)
    assert seen_on_ranks(lambda total, world_size: [total, world_size]) == [[1.0, 2], [1.0, 2]]


def test_a_function_that_cannot_be_imported_runs_on_ranks_whose_answers_come_in_their_order_whoever_was_first():
    secret = 10

    def the_first_is_last(total, world_size):
        if dist.get_rank() == 0:
            time.sleep(0.5)
        return [dist.get_rank(), total + world_size + secret]

    assert seen_on_ranks(the_first_is_last) == [[0, 13.0], [1, 13.0]]


@pytest.mark.parametrize("is_starved", [False, True])
def test_a_rank_that_hangs_is_ended_at_the_deadline_unless_others_had_the_machine(monkeypatch, is_starved):
    monkeypatch.setattr(asking, "is_starved", lambda pid, wall_s: is_starved)
    verdict = seen_on_ranks(lambda total, world_size: time.sleep(60), timeout_s=3.0)
    assert verdict.outcome is Outcome.UNDECIDED if is_starved else "had not finished" in verdict.hint
