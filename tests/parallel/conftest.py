from typing import Any

import pytest

from tests.parallel import programs


@pytest.fixture(scope="session")
def ranks(launch_quickly: Any) -> list[dict[str, Any]]:
    """Per rank, what each program returned; two gloo ranks, started once."""
    return launch_quickly(programs.run_all, 2)
