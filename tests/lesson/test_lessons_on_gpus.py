"""Every lesson that starts ranks runs on GPUs, pretended ones, as on the CPU: on what the plan of its ranks chose.

`make notebooks` runs them on a machine without any.
"""

import re
from copy import deepcopy

import nbformat
import pytest
from nbclient import NotebookClient

from tests import pretend_gpu
from tests.lesson.committed import FOLDER, read

# In some the package starts the ranks: a measurement, a ward of the clinic, the race, a moment of the guide.
STARTING = ["00", "01", "02", "03", "04", "05", "06", "12", "13", "14", "15", "16", "90"]
NUM_GPUS = 4  # as many as any of them starts ranks
PROBE = """
from pllab import accelerator
print(ranks.plan.name, ranks.fetch("__import__('pllab.accelerator').accelerator.seen['message']"))
"""


def lesson(number: str) -> nbformat.NotebookNode:
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    return deepcopy(read(path))


def starting(notebook: nbformat.NotebookNode) -> list[str]:
    """The sources of the cells that start ranks by their own words."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [source for source in cells if re.search(r"\bRanks\(|\blaunch\(\w+\(|\bsetup\(", source)]


def test_a_cell_that_asks_for_gloo_says_why() -> None:
    asking = [source for number in STARTING for source in starting(lesson(number)) if 'backend="gloo"' in source]
    assert len(asking) == 5  # 02, 03, 04, 12, 90
    assert [source for source in asking if "  # " not in source] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", STARTING)
def test_no_cell_raises_and_tensors_travel_between_gpus_where_the_lesson_does_not_ask_for_gloo(number: str) -> None:
    notebook = lesson(number)
    on_ranks = [index for index, cell in enumerate(notebook.cells) if cell.source.startswith("%%px")]
    probe = nbformat.v4.new_code_cell(PROBE)
    if on_ranks:
        notebook.cells.insert(on_ranks[-1] + 1, probe)
    folder = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(notebook, timeout=400, kernel_name="python3", resources=folder).execute(
        env=pretend_gpu.environment(NUM_GPUS)
    )
    asks = any(re.search(r"Ranks\(.*gloo", source) for source in starting(notebook))
    if on_ranks:
        text = "".join(output.text for output in probe.outputs if output.get("name") == "stdout")
        name, counts = text.split(maxsplit=1)
        if asks:
            assert name == "gloo"
        else:
            assert name == pretend_gpu.BACKEND
            assert all(count > 0 for count in map(int, re.findall(r"\d+", counts))), counts
