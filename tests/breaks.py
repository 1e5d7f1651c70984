"""Sixty breaks of the package, each small and quiet, to see whether the tests notice: a mutation test by hand.

    python -m tests.breaks                  # all of them; hours
    python -m tests.breaks 3 17             # some of them, by their numbers in the table below, from 1
    python -m tests.breaks --exhaustive     # with the exhaustive tests too
    python -m tests.breaks --jobs 2         # two copies at a time
    python -m tests.breaks --limit-s 3600   # more time for each run of pytest, on a busy machine

Each break is made in a copy of the tracked files, where the tests of its room run first and then all others. A break is
seen by the first test that fails, or missed. One whose text is no longer there exactly once is stale. The breaks were
chosen by somebody who had not read the tests; none raises an exception or waits for ever by itself.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STALE, MISSED = "stale", "missed"
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+\.py[^\s\[]*(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


class Break(NamedTuple):
    """A text of one file, what stands instead, and what is wrong then."""

    room: str
    file: str
    find: str
    instead: str
    says: str


class Tests(NamedTuple):
    """Which tests run, and the most seconds that each run of pytest may take."""

    is_exhaustive: bool = False
    limit_s: float = 900.0


BREAKS: tuple[Break, ...] = (
    # pipeline
    Break(
        "pipeline",
        "pllab/pipeline/randomness.py",
        "    return hash((batch_seed, stage, micro_batch)) & 0x7FFF_FFFF_FFFF_FFFF",
        "    return hash((batch_seed, 0, micro_batch)) & 0x7FFF_FFFF_FFFF_FFFF",
        "every stage draws the same dropout masks",
    ),
    Break(
        "pipeline",
        "pllab/pipeline/split.py",
        "        self.weights = [count / sum(counts) for count in counts]",
        "        self.weights = [1 / len(counts) for _ in counts]",
        "all micro-batches have the same weight, however many targets they have",
    ),
    Break(
        "pipeline",
        "pllab/pipeline/tied.py",
        "                    copy.grad = added.clone() if copy.grad is None else copy.grad + added",
        "                    copy.grad = added.clone()",
        "a step on ranks throws away the earlier gradient of a tied weight",
    ),
    Break(
        "pipeline",
        "pllab/pipeline/emulation.py",
        "        if name in self._due_s:",
        "        if name in self._due_s and name is not None and name.forward:",
        "emulated messages of gradients take no time",
    ),
    Break(
        "pipeline",
        "pllab/pipeline/saved_bytes.py",
        "        storage, num_bytes = _storage(tensor), tensor.untyped_storage().nbytes()",
        "        storage, num_bytes = _storage(tensor), tensor.nbytes",
        "a saved view counts with its own bytes, not with those of its storage",
    ),
    Break(
        "pipeline",
        "pllab/pipeline/engine.py",
        "            with timing(part):",
        "            with timing(action):",
        "a forward that is computed again is timed as a second backward",
    ),
    # parallel
    Break(
        "parallel",
        "pllab/parallel/bucketing.py",
        "            if parameter.grad is None:\n                self.views[index].zero_()\n            else:",
        "            if parameter.grad is not None:",
        "a parameter without gradient sends what its bucket held a step ago",
    ),
    Break(
        "parallel",
        "pllab/parallel/data_parallel.py",
        "        self._num_ranks = comm.world_size(self._group)",
        "        self._num_ranks = comm.world_size()",
        "gradients are divided by all ranks, not by those of the axis dp",
    ),
    Break(
        "parallel",
        "pllab/parallel/sharded.py",
        "        if self.zero == 3:\n            unit.free()",
        "        if self.zero >= 2:\n            unit.free()",
        "ZeRO-2 frees its parameters too, and gathers them twice a step",
    ),
    Break(
        "parallel",
        "pllab/parallel/sharded.py",
        "        is_changed = [self._was_stepped, *(unit.notice_change() for unit in self._all)]"
        "  # every unit is to notice",
        "        is_changed = [unit.notice_change() for unit in self._all]  # every unit is to notice",
        "the step of a fused optimizer is not noticed, so whole weights stay old",
    ),
    Break(
        "parallel",
        "pllab/parallel/norms.py",
        '    return over * int(getattr(parameter, "num_stages", 1))',
        "    return over",
        "the norm counts a weight that stages share once for each stage",
    ),
    Break(
        "parallel",
        "pllab/parallel/tensor.py",
        "    return torch.zeros_like(x) if comm.rank(group) else x.view_as(x)",
        "    return torch.zeros_like(x) if comm.rank() else x.view_as(x)",
        "a row-parallel bias is added only in the tp group of rank 0",
    ),
    Break(
        "parallel",
        "pllab/parallel/tensor.py",
        "        grad = grad.masked_fill(is_ignored, 0.0)\n        grad_logits = softmax * grad.unsqueeze(-1)",
        "        grad_logits = softmax * grad.unsqueeze(-1)",
        "targets that are ignored have a gradient in the split cross-entropy",
    ),
    # comm
    Break(
        "comm",
        "pllab/comm/shared_memory.py",
        "            for other in others:\n                part.add_(other)",
        "            for other in others[1:]:\n                part.add_(other)",
        "the third rank is left out of a reduce-scatter in shared memory",
    ),
    Break(
        "comm",
        "pllab/comm/transferring.py",
        "    segments = max(2, -(-flat.numel() * flat.element_size() // (_SEGMENT_BYTES * num_chunks)))",
        "    segments = max(1, -(-flat.numel() * flat.element_size() // (_SEGMENT_BYTES * num_chunks)))",
        "a ring cuts its chunks at other places than gloo",
    ),
    Break(
        "comm",
        "pllab/comm/links.py",
        "            free_at = self.messages[-1][1] if self.messages else -math.inf",
        "            free_at = self.messages[-1][0] if self.messages else -math.inf",
        "a slow link is free again when the message before has begun",
    ),
    Break(
        "comm",
        "pllab/comm/flight.py",
        '        puts_in = name != "receive" and (name not in _OF_ROOT or peer == dist.get_rank())',
        "        puts_in = name not in _OF_ROOT or peer == dist.get_rank()",
        "a flight record takes what lies in the buffer of a receive for what the rank puts in",
    ),
    Break(
        "comm",
        "pllab/comm/group_calls.py",
        "            return dist.get_global_rank(self.group, self.args[1])",
        "            return self.args[1]",
        "the peer of a message in a group is its number there, not in the world",
    ),
    Break(
        "comm",
        "pllab/comm/launching.py",
        "        failure, number = min(failed, key=lambda each: (each[0].is_echo, each[1]))",
        "        failure, number = min(failed, key=lambda each: each[1])",
        "launch blames the lowest rank that failed, though its failure is an echo",
    ),
    # train
    Break(
        "train",
        "pllab/train/loop.py",
        "        torch.manual_seed((self.config.seed + (self.at + 1) * count + number) % 2**63)",
        "        torch.manual_seed((self.config.seed + (self.at + 1) * count) % 2**63)",
        "all shares of the data have the same seed for dropout",
    ),
    Break(
        "train",
        "pllab/train/loop.py",
        "        began = time.perf_counter()\n        if saves:\n            self.save()",
        "        if saves:\n            self.save()\n        began = time.perf_counter()",
        "the training time of an epoch includes the saving of checkpoints",
    ),
    Break(
        "train",
        "pllab/train/evaluation.py",
        "    trainer.model.eval()",
        "    trainer.model.train()",
        "dropout stays on in the validation",
    ),
    Break(
        "train",
        "pllab/train/loop.py",
        "        self.trainer.updates.begin(self.config.num_epochs * length, done)",
        "        self.trainer.updates.begin(self.config.num_epochs * length)",
        "a resumed run begins its learning rates anew",
    ),
    Break(
        "train",
        "pllab/train/comparing.py",
        "        slowest = [max(times) for times in zip(*(seconds for seconds, _ in of_ranks), strict=True)]",
        "        slowest = [min(times) for times in zip(*(seconds for seconds, _ in of_ranks), strict=True)]",
        "a step in the comparison of strategies takes as long as on its quickest rank",
    ),
    Break(
        "train",
        "pllab/train/metrics.py",
        "        seconds = fmean(sum(e.training_time_s for e in epochs[1:] or epochs) for epochs in ranks)",
        "        seconds = fmean(sum(e.training_time_s for e in epochs) for epochs in ranks)",
        "rates take the time of the first epoch too, whose samples they leave out",
    ),
    Break(
        "train",
        "pllab/train/torch_pipeline.py",
        "        return total * self._schedule.num_microbatches / self._num_targets",
        "        return total / (labels[:, 1:] != IGNORED).sum().clamp(min=1)",
        "the loss of a batch between ranks is the mean of its micro-batches' means",
    ),
    # lesson
    Break(
        "lesson",
        "pllab/lesson/mistakes.py",
        "        if all(mistake.explains(*each, same) for each in wrong):",
        "        if any(mistake.explains(*each, same) for each in wrong):",
        "a mistake is named that explains one wrong answer only",
    ),
    Break(
        "lesson",
        "pllab/lesson/encoding.py",
        "        mine.clear()\n        mine.update(theirs)",
        "        mine.update(theirs)",
        "a key that the learner's function removed from a dictionary stays",
    ),
    Break(
        "lesson",
        "pllab/lesson/asked_ranks.py",
        "        rank = min(failures, key=lambda rank: (failures[rank][1], rank))",
        "        rank = min(failures)",
        "a check blames the lowest rank that failed, though its failure is an echo",
    ),
    Break(
        "lesson",
        "pllab/lesson/grading.py",
        "    deadline_s = graders.limits.timeout_s or task.exercise.deadline_s",
        "    deadline_s = task.exercise.deadline_s or graders.limits.timeout_s or 0.0",
        "grade takes the deadline of the exercise, whatever the teacher asks for",
    ),
    Break(
        "lesson",
        "pllab/lesson/keeping.py",
        '        if module is None or vars(module).get("__text__") != text:'
        "  # another object of a function cannot be pickled",
        "        if module is None:",
        "mine gives the solution that was kept first, not the newest",
    ),
    Break(
        "lesson",
        "pllab/lesson/guesses.py",
        "    if _chance(range(held, count + 1), count) < _SURPRISING:",
        "    if _chance(range(held, count), count) < _SURPRISING:",
        "the chance that all ranges hold is left out, so few ranges already could be narrower",
    ),
    # schedule
    Break(
        "schedule",
        "pllab/schedule/families/one_way.py",
        "    return Schedule(tuple(_with_weights_late(stage, m, 2 * (p - stage - 1), 2 * stage) for stage in range(p))"
        ', "ZB-H2")',
        "    return Schedule(tuple(_with_weights_late(stage, m, 2 * (p - stage - 1), stage) for stage in range(p))"
        ', "ZB-H2")',
        "ZB-H2 delays its weight gradients by half as much",
    ),
    Break(
        "schedule",
        "pllab/schedule/families/v_shaped.py",
        "    block = _Block(slopes=(2, 1, 2, 1), pauses=pauses, memory=2 * ((p + 2) // 2))",
        "    block = _Block(slopes=(2, 1, 2, 1), pauses=pauses, memory=2 * ((p + 4) // 2))",
        "V-half holds two more activations",
    ),
    Break(
        "schedule",
        "pllab/schedule/dependencies.py",
        "        away = towards in stages and schedule.rank_of_stage[towards] != schedule.rank_of_stage[stage]",
        "        away = towards in stages",
        "a message within a rank takes as long as one between ranks",
    ),
    Break(
        "schedule",
        "pllab/schedule/search/problem.py",
        "        weight_share = 1.0 - (held or Held()).input_share",
        "        weight_share = (held or Held()).input_share",
        "a search takes the memory that I frees for that which W frees",
    ),
    Break(
        "schedule",
        "pllab/schedule/legality.py",
        "    waits = [(schedule.rows[rank][heads[rank]], rank) for rank in order[order.index(rank) :]]",
        "    waits = [(schedule.rows[rank][heads[rank]], rank) for rank in order]",
        "ranks that only wait for a circle count as part of it",
    ),
    # simulate
    Break(
        "simulate",
        "pllab/simulate/idle.py",
        '        return "input" if span.start > before.end else "rank"',
        '        return "input" if span.start >= before.end else "rank"',
        "the critical path goes to an input that was there long before",
    ),
    Break(
        "simulate",
        "pllab/simulate/estimation.py",
        "    return _costs(work, num_stages, launch, max(0.0, _middle(messages) - launch))",
        "    return _costs(work, num_stages, launch, _middle(messages))",
        "a launch counts twice, in the work and in the message before it",
    ),
    # traces
    Break(
        "traces",
        "pllab/traces/alignment.py",
        "    return [(base - bases[0]) / 1e3 for base in bases]",
        "    return [(base - bases[0]) / 1e6 for base in bases]",
        "clocks of files are put together in milliseconds for microseconds",
    ),
    Break(
        "traces",
        "pllab/traces/kineto.py",
        "        work.append(TracedWork(action, begin, max((begin, *inputs)), end, window))",
        "        work.append(TracedWork(action, begin, max((begin, *inputs[:1])), end, window))",
        "work begins when its first tensor has come, not the last",
    ),
    Break(
        "traces",
        "pllab/traces/kineto.py",
        "        if launch is not None and _correlation(kernel) is not None and not is_message:",
        "        if launch is not None and _correlation(kernel) is not None:",
        "a GPU's kernel that sends counts as work",
    ),
    # autopsy
    Break(
        "autopsy",
        "pllab/autopsy/diagnosis.py",
        "        (before, _), (last, rank) = sorted((calls[rank][place].started_s, rank) for rank in calls)[-2:]",
        "        (before, _), *_, (last, rank) = sorted((calls[rank][place].started_s, rank) for rank in calls)",
        "a rank is late by the time since the first came, not since the one before it",
    ),
    Break(
        "autopsy",
        "pllab/autopsy/diagnosis.py",
        "    number, rank, call = min(found, key=lambda one: one[:2])",
        "    number, rank, call = found[0]",
        "the lowest rank with a NaN is blamed, not the one that had it first",
    ),
    Break(
        "autopsy",
        "pllab/autopsy/dumps.py",
        "        return _NAMES.get(ends[1], ends[1]), int(ends[3])",
        "        return _NAMES.get(ends[1], ends[1]), int(ends[2])",
        "the peer of a message in torch's dump is the rank itself",
    ),
    # data
    Break(
        "data",
        "pllab/data/loader.py",
        "    by_remainder = sorted(range(len(due)), key=lambda i: due[i] - counts[i], reverse=True)",
        "    by_remainder = sorted(range(len(due)), key=lambda i: due[i] - counts[i])",
        "what is left over goes to the shares with the smallest remainders",
    ),
    Break(
        "data",
        "pllab/data/loader.py",
        "        return order + [order[i % len(order)] for i in range(missing)]",
        "        return order + [order[-1 - i % len(order)] for i in range(missing)]",
        "an epoch is filled up with its last samples, not with its first",
    ),
    Break(
        "data",
        "pllab/data/tokens.py",
        "    starts = range(0, len(stream) - block_size + 1, block_size)",
        "    starts = range(0, len(stream) - block_size, block_size)",
        "a last row that is exactly full is left out",
    ),
    # models
    Break(
        "models",
        "pllab/models/gpt2.py",
        "        self._use(partitions, devices, split_size, num_microbatches=num_microbatches, recompute=recompute)",
        "        self._use(partitions, devices, split_size, num_microbatches=num_microbatches)",
        "prepare_pipeline_parallel forgets recompute",
    ),
    Break(
        "models",
        "pllab/models/slices.py",
        "        draws = self._by_device.setdefault(device, Draws(rank(self._group), self._module, device))",
        "        draws = self._by_device.setdefault(device, Draws(0, self._module, device))",
        "tp ranks drop the same places of their different slices",
    ),
    # bench
    Break(
        "bench",
        "pllab/bench/measure.py",
        "        return self.tokens and self.tokens * len(self.seconds[name]) / sum(self.seconds[name])",
        "        return self.tokens and statistics.mean(self.tokens / seconds for seconds in self.seconds[name])",
        "tokens/s are a mean of rates",
    ),
    Break(
        "bench",
        "pllab/bench/measure.py",
        "    slowest = {name: map(max, zip(*(each[name] for each in by_rank), strict=True)) for name in runs}",
        "    slowest = {name: map(min, zip(*(each[name] for each in by_rank), strict=True)) for name in runs}",
        "of ranks in step the quickest counts",
    ),
    Break(
        "bench",
        "pllab/bench/message_costs.py",
        "    beta, alpha = np.polyfit(num_bytes, seconds, 1, w=1 / np.asarray(seconds))",
        "    beta, alpha = np.polyfit(num_bytes, seconds, 1)",
        "the cost of a message is fitted to absolute errors",
    ),
    # show
    Break(
        "show",
        "pllab/show/editor/edits.py",
        "    return _with_row(schedule, rank, (whole if item == first else item for item in schedule.rows[rank]"
        " if item != rest))",
        "    return _with_row(schedule, rank, (whole if item == rest else item for item in schedule.rows[rank]"
        " if item != first))",
        "the editor merges into the place of the W",
    ),
    Break(
        "show",
        "pllab/show/studio/stage_costs.py",
        "    means = [fsum(column) / num_ranks for column in lists]",
        "    means = [fsum(column) / num_stages for column in lists]",
        "the studio's dials show the mean of a stage, not of a rank",
    ),
    Break(
        "show",
        "pllab/show/widgets/bucket_slider.py",
        "        if filled and filled[-1] + size <= bucket_bytes:",
        "        if filled and filled[-1] + size < bucket_bytes:",
        "a bucket on the slider is never exactly full",
    ),
    # cli
    Break(
        "cli",
        "pllab/cli/training.py",
        "    seconds = max(rank.training_time_s for rank in ranks)",
        "    seconds = min(rank.training_time_s for rank in ranks)",
        "the line of an epoch has the time of the quickest rank",
    ),
    Break(
        "cli",
        "pllab/cli/importing.py",
        "    for one in idle_causes(schedule, timeline, costs):",
        "    for one in idle_causes(schedule, timeline):",
        "import takes launches for messages",
    ),
    # lesson/exercises
    Break(
        "lesson/exercises",
        "pllab/lesson/exercises/lesson_08_bubble.py",
        "    return _first(lambda m: _share_of_all(m, p) <= limit)",
        "    return _first(lambda m: _share_of_all(m, p) < limit)",
        "exercise 08.3 refuses a fraction of exactly the limit",
    ),
    Break(
        "lesson/exercises",
        "pllab/lesson/exercises/lesson_06_accumulate.py",
        "            if sent > len(gradients) or most > num_bytes + _SLACK_BYTES:",
        "            if sent > len(gradients) and most > num_bytes + _SLACK_BYTES:",
        "exercise 06.3 accepts few messages that carry all gradients twice",
    ),
)


def patched(text: str, each: Break) -> str | None:
    """The text of a file with a break in it; None if the break is stale."""
    return text.replace(each.find, each.instead) if text.count(each.find) == 1 else None


def copy_to(folder: Path) -> None:
    """Copy the tracked files; the copy is a repository too, for tests that ask git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def verdict_on(each: Break, tests: Tests) -> str:
    """Make a break in a copy and run the tests there: the first test that sees it, or that none does."""
    with tempfile.TemporaryDirectory(prefix="pllab-break-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        copy_to(folder)
        file = folder / each.file
        text = patched(file.read_text(encoding="utf-8"), each) if file.is_file() else None
        if text is None:
            return STALE
        file.write_text(text, encoding="utf-8")
        for words in _selections(folder, each.room):
            if seen_by := _run_tests(folder, words, tests):
                return f"seen by {seen_by}"
    return MISSED


def _selections(folder: Path, room: str) -> Iterator[list[str]]:
    """First the tests of the room, then all others."""
    own = [place for place in (f"tests/{room}", f"tests/{room.partition('/')[0]}") if (folder / place).is_dir()][:1]
    yield from ([place] for place in own)
    yield ["tests", *(f"--ignore={place}" for place in own)]


def _run_tests(folder: Path, words: Sequence[str], tests: Tests) -> str:
    """The first test that fails; empty if all pass, or there are none."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words]
    command += ["-m", ""] if tests.is_exhaustive else []
    with tempfile.TemporaryFile() as output:
        environment = os.environ | {"PYTHONPATH": str(folder)}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(tests.limit_s)
        except subprocess.TimeoutExpired:
            return "a test that does not end"
        finally:
            _end(process)
        output.seek(0)
        told = output.read().decode(errors="replace")
    if code in (0, 5):  # 5: nothing was selected
        return ""
    found = _FAILED.search(told)
    return found[1] if found else f"pytest, which ended with {code}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a run of pytest that is not over, with what it started in its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(numbers: Sequence[int], tests: Tests, jobs: int, tell: Callable[[str], object]) -> dict[int, str]:
    """The verdict on each break of these numbers, from 1; each is told when it is there."""
    verdicts: dict[int, str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        asked = {pool.submit(verdict_on, BREAKS[number - 1], tests): number for number in numbers}
        for future in as_completed(asked):
            number = asked[future]
            verdicts[number] = future.result()
            tell(f"{line_of(number)}: {verdicts[number]}")
    return verdicts


def line_of(number: int) -> str:
    """A break in one line."""
    each = BREAKS[number - 1]
    return f"{number:2} {each.file.removeprefix('pllab/')}, {each.says}"


def summary_of(verdicts: dict[int, str]) -> str:
    """How many were seen, then those that were missed and those that are stale."""
    missed, stale = (sorted(n for n, said in verdicts.items() if said == kind) for kind in (MISSED, STALE))
    tried = len(verdicts) - len(stale)
    lines = [f"seen {tried - len(missed)} of {tried}"]
    lines += [f"missed: {line_of(number)}" for number in missed]
    lines += [f"stale: {line_of(number)}" for number in stale]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run the breaks that the words name; 1 if one was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description="Which breaks do the tests see?")
    parser.add_argument("numbers", nargs="*", type=int, help=f"breaks, from 1 to {len(BREAKS)}; by default all")
    parser.add_argument("--exhaustive", action="store_true", help="run the exhaustive tests too")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="copies at a time")
    parser.add_argument("--limit-s", type=float, default=Tests().limit_s, help="seconds for each run of pytest")
    options = parser.parse_args(words)
    numbers = options.numbers or range(1, len(BREAKS) + 1)
    if not all(1 <= number <= len(BREAKS) for number in numbers):
        parser.error(f"breaks have the numbers 1 to {len(BREAKS)}")

    def tell(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    tests = Tests(options.exhaustive, options.limit_s)
    verdicts = run(list(dict.fromkeys(numbers)), tests, options.jobs, tell)
    tell(summary_of(verdicts))
    return int(MISSED in verdicts.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
