import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pllab.schedule import Kind, one_f_one_b
from pllab.simulate import Costs, simulate


def test_one_number_counts_for_every_stage_and_of_several_each_for_its_own() -> None:
    costs = Costs([1.0, 2.0], backward_input=(3.0, 4.0), p2p=2.0)
    assert [costs.duration(1, kind) for kind in (Kind.F, Kind.I, Kind.W, Kind.B)] == [2.0, 4.0, 1.0, 5.0]
    assert costs.num_stages == 2 and hash(costs) == hash(Costs((1.0, 2.0), (3.0, 4.0), 1.0, 2.0))
    assert costs.p2p == 2.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"forward": -1.0}, "forward is -1.0; give a finite number of at least 0"),
        ({"backward_input": math.nan}, "backward_input is nan; give a finite number of at least 0"),
        ({"backward_weight": math.inf}, "backward_weight is inf; give a finite number of at least 0"),
        ({"p2p": "1"}, "p2p is '1'; give a number"),
        ({"p2p": (1.0, 2.0)}, r"p2p is \(1.0, 2.0\); give a number"),
        ({"forward": True}, "forward is True; give a number"),
        ({"forward": (1.0, math.nan)}, "forward of stage 1 is nan"),
        *(({"forward": table}, "forward of stage 0 is .*; give a number") for table in ([[1.0, 2.0]], np.ones((1, 2)))),
        *(({"forward": value}, "forward is .*; give a number, an int") for value in (np.bool_(True), None)),
        ({"overlap": 1.5}, "overlap is 1.5; it is the part of an action that is hidden, from 0 to 1"),
        ({"overlap": -0.5}, "overlap is -0.5"),
        ({"overlap": (0.5, 0.5)}, "overlap is .*; give a number"),
        ({"forward": (1.0, 2.0), "backward": (1.0,)}, r"different numbers of stages \(forward 2, backward 1\)"),
    ],
)
def test_an_impossible_cost_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Costs(**arguments)


def test_numbers_of_other_libraries_become_pythons() -> None:
    costs = Costs(np.float32(1.5), np.array([2, 3]), [Fraction(1, 2), np.float64(4.0)], np.float32(0.25), np.int64(8))
    plain = Costs(1.5, (2, 3), (0.5, 4.0), 0.25, 8)
    assert costs == plain and repr(costs) == repr(plain)
    assert simulate(one_f_one_b(2, 3), costs) == simulate(one_f_one_b(2, 3), plain)
