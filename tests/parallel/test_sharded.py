"""FullyShardedDataParallel against the plain model with the whole batch, against FSDP2, and by counted messages."""

from typing import Any

import pytest

from tests.parallel.on_ranks import assert_passed, failures
from tests.parallel.programs_sharded import PROGRAMS, nine_rows_on_any_number_of_ranks

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def failed(launch_quickly: Any) -> list[dict[str, str]]:
    """Per rank, which programs failed; two ranks, started once."""
    return launch_quickly(failures, 2, PROGRAMS, timeout_s=200)


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_ranks(failed: list[dict[str, str]], name: str) -> None:
    assert_passed(failed, name)


@pytest.mark.parametrize("size", [1, 3])
def test_any_number_of_ranks(size: int, launch_quickly: Any) -> None:
    assert launch_quickly(failures, size, {"step": nine_rows_on_any_number_of_ranks}) == [{}] * size
