from typing import Any

import pytest

from pllab.comm import launch
from tests.parallel import programs


@pytest.fixture(scope="session")
def ranks() -> list[dict[str, Any]]:
    """Per rank, what each program returned; two gloo ranks, started once."""
    return launch(programs.run_all, 2, backend="gloo", timeout_s=120.0)
