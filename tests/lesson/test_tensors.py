"""Tensors as answers: another dtype is told as such and refused, and whole numbers are compared to the bit."""

import pytest
import torch

from pllab import comm
from pllab.lesson.exercises.tensors import told
from tests.lesson.judge import judged
from tests.lesson.mutants_09 import _piped
from tests.lesson.mutants_14 import _scatter
from tests.lesson.variants_09 import cut_and_go_on
from tests.lesson.variants_10 import dictionary

NEARLY = torch.tensor([1.0, 1 / 3])


def test_the_largest_difference_is_told_and_a_dtype_where_there_is_none():
    assert told(NEARLY.double(), torch.tensor([1.0, 0.5])) == "0.3333 at [1]; right is 0.5"
    assert told(NEARLY.double() + 1e-9, NEARLY) == "a tensor of torch.float64; right is torch.float32"


def batch_of_float64(x, split_size, partitions, devices, compute):
    return _piped(list(x.split(split_size)), partitions, compute).double()


def stages_of_float32(x, targets, first, second, loss_of):
    return cut_and_go_on(x.float(), targets.float(), first.float(), second.float(), loss_of)


def rounds_on_the_way(buffer, tied, ends, dp):
    buffer /= 3
    comm.all_reduce(buffer[tied], ends)
    _scatter(buffer, dp)
    buffer *= 3


def stage_of_float64(row, stage, loss, inputs, targets):
    return dictionary(row, stage.double(), loss, [x.double() for x in inputs], [y.double() for y in targets])


@pytest.mark.parametrize(
    ("exercise_id", "hint_id", "solution", "right"),
    [
        ("09.3", "wrong", batch_of_float64, "right is torch.float32"),
        ("09.4", "wrong", stages_of_float32, "right is torch.float64"),
        ("10.2", "wrong_result", stage_of_float64, "right is torch.float32"),
        ("14.2", "wrong", rounds_on_the_way, ""),
    ],
)
def test_right_numbers_of_another_dtype_and_rounded_sums_are_refused(exercise_id, hint_id, solution, right):
    verdict = judged(exercise_id, solution)
    assert (verdict.hint_id, right in verdict.hint) == (hint_id, True), str(verdict)
