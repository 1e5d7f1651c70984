from typing import Any

import pytest

from pllab.comm import launch
from tests.parallel import programs


@pytest.fixture(scope="session")
def ranks(start_quickly: Any) -> list[dict[str, Any]]:
    """Per rank, what each program returned; two gloo ranks, started once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pllab.comm.launching.start_child", start_quickly)
        return launch(programs.run_all, 2, backend="gloo", timeout_s=120.0)
