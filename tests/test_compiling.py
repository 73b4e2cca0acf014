"""What a compiler makes: once for each state of what it reads, whole or not at all, and every refusal one sentence."""

import subprocess
import sys

import pytest

from ctrlab import compiling
from ctrlab.errors import CtrlabError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(cache, tmp_path, monkeypatch):
    """`made()`: the program of two files; and how often the compiler was called for it."""
    calls, compile = [], compiling.compile
    monkeypatch.setattr(compiling, "compile", lambda *a, **k: calls.append(1) or compile(*a, **k))
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "main.cc").write_text('#include "answer.h"\nint main() { return ANSWER; }\n')

    def make(*flags):
        return compiling.cached("answer", ["-I", tmp_path, *flags], [tmp_path / "main.cc"], reads=[tmp_path / "answer.h"])

    make.calls = calls
    return make


def test_it_is_made_once_for_each_state_of_what_it_reads(made, cache, tmp_path):
    first = made()
    assert subprocess.run([first]).returncode == 42 and made() == first and len(made.calls) == 1
    assert made("-O1") != first and len(made.calls) == 2
    (tmp_path / "answer.h").write_text("#define ANSWER 43\n")
    assert subprocess.run([made()]).returncode == 43 and len(made.calls) == 3
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    assert made() == first and len(made.calls) == 3
    assert len(list(cache.iterdir())) == 3


def test_the_latest_of_a_name_are_kept(made, cache, monkeypatch):
    monkeypatch.setattr(compiling, "KEPT", 2)
    first, second = made(), made("-O1")
    made()  # used again
    third = made("-O2")
    assert set(cache.iterdir()) == {first, third} and second not in cache.iterdir()


def test_a_program_that_does_not_compile_leaves_nothing(made, cache, tmp_path):
    (tmp_path / "answer.h").write_text("#define ANSWER forty two\n")
    with pytest.raises(compiling.CompileError, match=r"(?s)answer must compile; .* says: .*forty") as refused:
        made()
    assert "main.cc:2" in refused.value.output and list(cache.iterdir()) == []


def test_names_are_as_they_are_in_the_folder(tmp_path):
    (tmp_path / "wrong.cc").write_text("int main() {")
    with pytest.raises(compiling.CompileError) as refused:
        compiling.compile([], ["wrong.cc"], tmp_path / "out", folder=tmp_path)
    assert refused.value.output.startswith("wrong.cc:")


def test_a_compiler_that_does_not_end_is_ended(tmp_path):
    forever = (sys.executable, "-c", "import time; time.sleep(600)")
    with pytest.raises(compiling.CompileError, match=r"out must compile; .*within 0\.5 s"):
        compiling.compile([], [], tmp_path / "out", by=forever, seconds=0.5)


def test_missing_sanitizers_are_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(compiling, "run", lambda *a, **k: (1, "", "ld: cannot find -lasan: No such file"))
    with pytest.raises(compiling.NoSanitizer, match=r"sanitizer libraries of .*install libasan"):
        compiling.compile(["-fsanitize=address"], ["kernel.cc"], tmp_path / "check")


def test_no_compiler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    with pytest.raises(CtrlabError, match=r"C\+\+20 compiler.*install g\+\+"):
        compiling.compiler()


def test_the_compiler_is_the_one_that_is_named(monkeypatch):
    monkeypatch.setenv("CXX", f"{sys.executable} -O")
    assert compiling.compiler() == (sys.executable, "-O")


def test_nothing_heavy_is_imported():
    code = "import sys, ctrlab.compiling; print(*({'tensorflow', 'keras', 'numpy', 'pyarrow', 'filelock'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_what_takes_more_than_one_call_is_kept_too(cache, tmp_path):
    (tmp_path / "a.txt").write_text("a")

    def make(target):
        calls.append(1)
        target.write_text("made")

    calls = []
    for _ in range(2):
        assert compiling.cached("b.txt", [], [tmp_path / "a.txt"], make=make).read_text() == "made"
    assert calls == [1]
