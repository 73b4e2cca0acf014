"""A missing library, or one of another TensorFlow, is one sentence with the cure."""

import importlib.metadata

import pytest

from ctrlab.errors import NativeLibraryError
from ctrlab.ops import _native


def test_the_library_loads_and_is_that_of_this_package():
    library = _native.library()
    assert library.path == _native.LIBRARY and hasattr(library.ops, "ctrlab_indicator")


def test_a_missing_library(tmp_path):
    with pytest.raises(NativeLibraryError, match="missing; run `pip install -e"):
        _native.check(tmp_path / "_ctrlab.so", "2.21.0")


def test_a_library_of_another_tensorflow():
    with pytest.raises(NativeLibraryError, match=r"built for TensorFlow \S+, and TensorFlow 2\.99\.0 is installed; run `pip"):
        _native.check(_native.LIBRARY, "2.99.0")


@pytest.mark.parametrize("content", [b"", b"not a library", _native.LIBRARY.read_bytes()[:-100]])
def test_a_library_that_is_none(tmp_path, content):
    path = tmp_path / "_ctrlab.so"
    path.write_bytes(content)
    with pytest.raises(NativeLibraryError, match=r"no compiled library.*only a piece of one; run `pip install"):
        _native.check(path, "2.21.0")


def test_a_library_that_does_not_load(tmp_path, monkeypatch):
    path = tmp_path / "_ctrlab.so"
    path.write_bytes(f"text: ctrlab built for TensorFlow <{importlib.metadata.version('tensorflow')}>".encode())
    monkeypatch.setattr(_native, "LIBRARY", path)
    with pytest.raises(NativeLibraryError, match=r"cannot load .*pip install"):
        _native.library.__wrapped__()
