import os
import subprocess
import sys

from pllab.cli import main
from pllab.cli.doctor import find_strays
from pllab.comm import Ranks


def test_the_report_names_what_there_is_and_two_ranks_talk(capsys):
    assert main(["doctor", "--ranks", "2"]) == 0
    output = capsys.readouterr().out
    assert "2 ranks started, exchanged a tensor and ended" in output
    for word in ("cores", "memory", "torch", "GPUs", "2 ranks", "gloo", "chromium", "ipyparallel", "strays"):
        assert word in output


def test_strays_are_those_with_our_mark_only(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / "pllab-launch-x"
    folder.mkdir()
    program = "import sys, time; open_file = open(sys.argv[1], 'w'); print('ready', flush=True); time.sleep(60)"
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE)
        for file in (folder / "stack-0", tmp_path / "other")
    ]
    try:
        for process in started:
            process.stdout.readline()
        found = " ".join(find_strays())
        assert f"process {started[0].pid} in use by process {os.getpid()} " in found
        assert f"process {started[1].pid} " not in found
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert f"process {started[0].pid} " not in " ".join(find_strays())


def test_what_a_stray_started_is_not_told_again():
    with Ranks(2):
        told = find_strays()
    numbers = {text.split()[1] for text in told}
    assert any(f" in use by process {os.getpid()} " in text for text in told)
    assert not any(f" in use by process {number} " in " ".join(told) for number in numbers)
