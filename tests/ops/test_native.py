"""A missing library, or one of another TensorFlow, is one sentence with the cure."""

import importlib.metadata
import subprocess
import sys

import pytest

from ctrlab import _native
from ctrlab.errors import NativeLibraryError


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


def test_the_engine_is_missing_or_a_piece(tmp_path, monkeypatch):
    path = tmp_path / "libctrlab_engine.so"
    monkeypatch.setattr(_native, "ENGINE", path)
    with pytest.raises(NativeLibraryError, match=r"engine\.so is missing; .*`pip install"):
        _native.library.__wrapped__()
    path.write_bytes(_native.LIBRARY.with_name("libctrlab_engine.so").read_bytes()[:-100])
    with pytest.raises(NativeLibraryError, match=r"engine\.so .*only a piece"):
        _native.library.__wrapped__()


def test_the_engine_needs_no_tensorflow_and_is_in_a_process_once():
    """Loaded by its path, then as what the bindings are linked to, it is one library."""
    code = f"""
import ctypes
engine = ctypes.CDLL({str(_native.ENGINE)!r})
assert engine.ctrlab_store_open and "tensorflow" not in open("/proc/self/maps").read()
from ctrlab import _native
address = lambda library: ctypes.cast(library.ctrlab_store_open, ctypes.c_void_p).value
assert address(_native.library().c) == address(engine)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
