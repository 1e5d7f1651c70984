"""A GPU node with only torch and transformers can import the room and use its loaders."""

import subprocess
import sys

SCRIPT = """
import sys
import pllab.data
loader = pllab.data.partition_dataset(0, 2, list(range(8)), 4)
assert len(list(loader)) == 2
assert pllab.data.docs_examples()
forbidden = "datasets tokenizers num2words transformers huggingface_hub ipywidgets anywidget ipyparallel"
print(sorted({name.split(".")[0] for name in sys.modules} & set(forbidden.split())))
"""


def test_importing_the_room_imports_none_of_the_text_libraries():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert result.stdout == "[]\n", result.stderr
