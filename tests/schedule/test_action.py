import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind


@given(stage=st.integers(0, 999), kind=st.sampled_from(Kind), micro=st.integers(0, 999))
def test_the_text_form_reads_back(stage: int, kind: Kind, micro: int) -> None:
    action = Action(stage, kind, micro)
    assert Action.parse(str(action)) == action


def test_the_text_form_is_the_one_torch_writes() -> None:
    from torch.distributed.pipelining.schedules import _Action

    for kind in "FBIW":
        assert str(Action(2, Kind(kind), 7)) == repr(_Action.from_str(f"2{kind}7")) == f"2{kind}7"


@pytest.mark.parametrize("text", ["", "F0", "2F", "2X0", "-1F0", "2F0 1F0", "2f0"])
def test_what_is_no_action_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is no action"):
        Action.parse(text)
