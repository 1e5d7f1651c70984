import pytest

from pllab.cli import main
from pllab.lesson import recorded


def test_record_writes_the_moments_that_are_named(tmp_path, capsys):
    folder = tmp_path / "recorded"
    assert main(["record", str(folder), "--moments", "late-binding", "golf"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["golf.json", "late-binding.json"]
    assert recorded("golf", folder).engine == "emulated"
    assert capsys.readouterr().out.count("is written") == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "no folder is given; write python -m pllab record notebooks/recorded"),
        (["FOLDER", "--moments", "hnag"], "'hnag' is no moment of the guide; choose one of late-binding"),
        (["FILE"], "is a file; name the folder"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_runs(words, expected, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    places = {"FOLDER": str(tmp_path / "new"), "FILE": str(tmp_path / "file")}
    assert main(["record", *(places.get(word, word) for word in words)]) == 2
    refusal = capsys.readouterr().err
    assert expected in refusal and refusal.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
