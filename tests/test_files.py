"""A file is replaced as a whole, or stays what it was."""

from errno import ENOSPC
from pathlib import Path

import pytest

from pllab.files import write_whole


@pytest.mark.parametrize(("content", "read"), [("größe\n", "größe\n".encode()), (b"\x80\x00", b"\x80\x00")])
def test_the_new_content_takes_the_place_of_the_old(tmp_path, content, read):
    path = tmp_path / "result.json"
    path.write_text("what was there before, and is longer")
    write_whole(path, content)
    assert path.read_bytes() == read
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_who_has_the_old_file_open_reads_it_to_its_end(tmp_path):
    path = tmp_path / "result.json"
    write_whole(path, "old")
    with path.open() as file:
        write_whole(path, "new")
        assert (file.read(), path.read_text()) == ("old", "new")


def test_what_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(self: Path, target: Path) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left on device: '.*/result.json'"):
        write_whole(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "result.json", "new")
