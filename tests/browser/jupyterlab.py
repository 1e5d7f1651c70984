"""A real JupyterLab for a test, and how a student drives it: own home, own copies, loopback, a free port, a token.

Nothing of the user's settings is read or changed, and nothing is left: when the block ends the server stops its
kernels, and a process that outlives it is an error.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

from tests.browser.bench import expect

START_S = 90.0
STOP_S = 30.0

SETTINGS = {
    # All cells stay in the page: Lab otherwise keeps only those on screen, and a test could not see the rest.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}
MAKEFILE = Path(__file__).parents[2] / "Makefile"
OURS = re.search(r"--LabApp\.app_settings_dir=(\S+)", MAKEFILE.read_text())[1]  # as `make lab` starts it
FLAGS = [
    f"--LabApp.app_settings_dir={MAKEFILE.parent / OURS}",
    "--no-browser",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port=0",
    "--ServerApp.allow_root=True",
    "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--KernelManager.transport=ipc",  # a port could be taken before the kernel has it, see tests/conftest.py
    "--LabApp.collaborative=False",
]


# True once the kernel is idle and every code cell carries a number, none a star. A folded cell shows neither; the
# saved file tells whether it ran.
ALL_DONE = r"""() => {
  const idle = document.querySelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]');
  const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((node) => node.textContent.trim());
  const shown = prompts.filter((text) => text);
  return Boolean(idle) && shown.length > 0 && shown.every((text) => /^\[\d+\]:$/.test(text));
}"""
NONE_RUN = """() => [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].every(
  (node) => !/[0-9*]/.test(node.textContent))"""
RUN_MS = 300_000  # lesson 16 takes 60 s where nothing else runs


@dataclass(frozen=True)
class Lab:
    """A running server: where it is, the folder it serves, its process, and what the notebooks are copies of."""

    url: str
    token: str
    folder: Path
    process: psutil.Popen
    originals: tuple[Path, ...]

    def address_of(self, notebook: str) -> str:
        """The page of one notebook in simple mode, with the token."""
        return f"{self.url}doc/tree/{notebook}?token={self.token}"

    def start_over(self) -> None:
        """End all kernels and copy the notebooks anew: the next page would show what the last one has saved."""
        self.end_kernels()
        self.copy_notebooks()

    def end_kernels(self) -> None:
        """Shut every kernel down as JupyterLab's menu does; a process that outlives its kernel is an error."""
        for session in json.loads(self.ask("api/sessions")):
            self.ask(f"api/sessions/{session['id']}", "DELETE")
        _expect_no_strays(self.process.children(recursive=True))

    def copy_notebooks(self) -> None:
        """Lay the notebooks into the folder as they are in the repository."""
        for notebook in self.originals:
            shutil.copy(notebook, self.folder)

    def ask(self, path: str, method: str = "GET") -> bytes:
        """The server's answer."""
        request = urllib.request.Request(f"{self.url}{path}?token={self.token}", method=method)
        with urllib.request.urlopen(request, timeout=STOP_S) as answer:
            return answer.read()


def write_notebook(path: Path, cells: list[str]) -> None:
    """Write a notebook with these cells of code."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    code = [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=kernel), path)


@contextlib.contextmanager
def jupyterlab(notebooks: list[Path], home: Path) -> Iterator[Lab]:
    """Serve copies of the notebooks from `home`, where the server writes too; only its sockets need a shorter path."""
    folder = home / "notebooks"
    folder.mkdir(parents=True)
    token = secrets.token_hex(16)
    log = home / "server.log"
    command = [sys.executable, "-m", "jupyterlab", *FLAGS, f"--ServerApp.root_dir={folder}"]
    with log.open("wb") as output, tempfile.TemporaryDirectory(prefix="lab-") as runtime:
        environment = _environment(home, token) | {"JUPYTER_RUNTIME_DIR": runtime}
        server = psutil.Popen(command, cwd=home, env=environment, stdout=output, stderr=output)
        try:
            url = _wait_for_url(server, Path(runtime), token, log)
            lab = Lab(url, token, folder, server, tuple(notebooks))
            lab.copy_notebooks()
            yield lab
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
                family = [server, *server.children(recursive=True)]
                server.terminate()
                _expect_no_strays(family)


def _environment(home: Path, token: str) -> dict[str, str]:
    """The user's environment without the user: a home and settings of our own."""
    settings = home / "config/lab/user-settings/@jupyterlab"
    for plugin, content in SETTINGS.items():
        path = settings / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG_", "IPYTHON"))}
    return kept | {
        "HOME": str(home),
        "JUPYTER_TOKEN": token,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
    }


def _wait_for_url(server: psutil.Popen, runtime: Path, token: str, log: Path) -> str:
    """The address the server wrote down, once it answers there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        for found in runtime.glob(f"jpserver-{server.pid}.json"):
            with contextlib.suppress(urllib.error.URLError, json.JSONDecodeError, ConnectionError):
                url = json.loads(found.read_text())["url"]
                urllib.request.urlopen(f"{url}api/status?token={token}", timeout=5).close()
                return url
        time.sleep(0.1)
    raise RuntimeError(f"jupyter lab did not answer within {START_S:g} s; its log ends: {log.read_text()[-2000:]}")


def _expect_no_strays(family: list[psutil.Process]) -> None:
    """Wait until these processes have ended, and name whoever stayed."""
    _, strays = psutil.wait_procs(family, timeout=STOP_S)
    names = [" ".join(stray.cmdline())[:120] for stray in strays if stray.is_running()]
    for stray in strays:
        stray.kill()
    psutil.wait_procs(strays, timeout=STOP_S)
    assert not names, f"JupyterLab left processes behind: {names}"


def open_at(page, address):
    """Open a notebook and wait until its kernel is ready, and the manager of its widgets has asked it for theirs."""
    asked = threading.Event()

    def hear(frame):
        if b"comm_info_reply" in (frame if isinstance(frame, bytes) else frame.encode()):
            asked.set()

    def listen(socket):
        socket.on("framereceived", hear)

    page.on("websocket", listen)
    page.goto(address)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.locator("#jp-bottom-panel, .jp-StatusBar-Widget").get_by_text("| Idle").first.wait_for(timeout=60_000)
    deadline = time.monotonic() + START_S
    while not asked.is_set() and time.monotonic() < deadline:
        page.wait_for_timeout(100)  # the events are handled in here
    page.remove_listener("websocket", listen)
    assert asked.is_set(), "the manager of widgets never asked the kernel; a widget shown before is not found"


def open_and_run(page, server, name):
    """Open the notebook, Run > Run All Cells, wait until all have run, and save."""
    open_at(page, server.address_of(name))
    choose(page, "Edit", "Clear Outputs of All Cells")  # so that no number is left from an earlier run
    page.wait_for_function(NONE_RUN)
    choose(page, "Run", "Run All Cells")
    page.wait_for_function(ALL_DONE, timeout=RUN_MS, polling=200)
    with page.expect_response(lambda answer: answer.request.method == "PUT" and "/api/contents/" in answer.url):
        page.keyboard.press("Control+s")


def choose(page, menu, entry):
    """Click an entry of a menu of the menu bar."""
    page.locator(".lm-MenuBar-item").get_by_text(menu, exact=True).click()
    page.locator(".lm-Menu").get_by_text(entry, exact=True).click()


def use_the_widget(page, control, key):
    """Focus the first widget with this control and press a key: the spoken line changes. X does not cut the cell."""
    widget = page.locator(".pl-widget", has=page.locator(control)).first
    expect(widget).to_have_attribute("data-pl-state", "ready")
    before = widget.locator(".pl-live").text_content()
    widget.locator(control).first.focus()
    page.keyboard.press(key)
    expect(widget.locator(".pl-live")).not_to_have_text(before)
    page.keyboard.press("x")
    expect(widget.locator(control).first).to_be_focused()
