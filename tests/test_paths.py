"""The cache folder: the environment's, the checkout's, the user's, in that order. And text that is written whole."""

import pytest

from ctrlab import paths
from ctrlab.errors import CtrlabError


def test_environment_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "here"))
    assert paths.cache_folder() == tmp_path / "here"
    assert (tmp_path / "here").is_dir()


def test_then_the_checkout_then_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("CTRLAB_CACHE", raising=False)
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    assert paths.cache_folder() == tmp_path / "data" / "cache"
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.setattr(paths.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert paths.cache_folder() == tmp_path / "user" / "ctrlab"


def test_what_is_compiled_is_the_user_s_for_all_checkouts(monkeypatch, tmp_path):
    monkeypatch.setattr(paths.sys, "platform", "linux")
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("CTRLAB_CACHE", raising=False)
    assert paths.compiled_folder() == tmp_path / "user" / "ctrlab" / "compiled"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert paths.compiled_folder() == tmp_path / "data" / "cache" / "compiled"
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "here"))
    assert paths.compiled_folder() == tmp_path / "here" / "compiled"
    (tmp_path / "here" / "compiled").rmdir()
    (tmp_path / "here" / "compiled").write_text("")
    with pytest.raises(CtrlabError, match=r"can't be made .*CTRLAB_CACHE"):
        paths.compiled_folder()


def test_a_folder_that_cannot_be_made_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(CtrlabError, match=r"can't be made .*CTRLAB_CACHE"):
        paths.cache_folder()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    paths.write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        paths.write_atomically(path, "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_place_is_refused_before_the_work(tmp_path):
    paths.require_place(tmp_path / "new.json")
    (tmp_path / "old.json").write_text("{}")
    paths.require_place(tmp_path / "old.json")
    for path, says in [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "x", "no is not one"),
        (tmp_path / "old.json" / "x", "is not one"),
    ]:
        with pytest.raises(CtrlabError, match=says):
            paths.require_place(path)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
