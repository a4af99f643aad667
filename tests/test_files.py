"""Files and folders appear whole or not at all."""

import pytest

from talentrl.files import atomic_path, sha256, write_text


def names(folder):
    return [path.name for path in folder.iterdir()]


def write_folder(folder, text):
    folder.mkdir()
    (folder / "file").write_text(text)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file"
    with atomic_path(path) as temporary:
        temporary.write_text("text")
        assert not path.exists()
        assert temporary.parent == path.parent, "on the same file system, so that it can be renamed"
    assert path.read_text() == "text"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("before", [None, "folder"])
def test_a_folder_takes_the_place_of_what_was_there(tmp_path, before):
    path = tmp_path / "out"
    if before == "folder":
        write_folder(path, "old")
        (path / "gone").write_text("old")
    with atomic_path(path) as temporary:
        write_folder(temporary, "new")
    assert names(tmp_path) == ["out"]
    assert names(path) == ["file"]
    assert (path / "file").read_text() == "new"


@pytest.mark.parametrize("write", [lambda path: path.write_text("half"), lambda path: write_folder(path, "half")])
@pytest.mark.parametrize("old", [None, lambda path: path.write_text("old"), lambda path: write_folder(path, "old")])
def test_a_failure_leaves_what_was_there(tmp_path, write, old):
    path = tmp_path / "out"
    if old is not None:
        old(path)
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        write(temporary)
        raise RuntimeError
    assert names(tmp_path) == (["out"] if old else [])
    if old:
        assert (path / "file" if path.is_dir() else path).read_text() == "old"


def test_writing_nothing_is_an_error_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "out"
    write_folder(path, "old")
    with pytest.raises(FileNotFoundError), atomic_path(path):
        pass
    assert (path / "file").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_writers_do_not_meet(tmp_path):
    path = tmp_path / "file"
    with atomic_path(path) as first, atomic_path(path) as second:
        assert first != second
        first.write_text("1")
        second.write_text("2")
    assert path.read_text() in ("1", "2")


def test_text_is_utf_8(tmp_path):
    write_text(tmp_path / "file", "é世\n")
    assert (tmp_path / "file").read_bytes() == "é世\n".encode()
    assert sha256(b"").startswith("e3b0c44298fc")
