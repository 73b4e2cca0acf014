"""Compiled files are made once per state of their sources, completely or not at all, and each refusal is one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctrlab import compiling
from ctrlab.errors import CtrlabError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


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


def test_what_was_used_longest_ago_is_deleted(made, cache, monkeypatch):
    monkeypatch.setattr(compiling, "YOUNG", 0)
    first, second = made(), made("-O1")
    monkeypatch.setattr(compiling, "MOST_BYTES", first.stat().st_size + second.stat().st_size + 1_000)
    made()  # used again
    third = made("-O2")
    assert set(cache.iterdir()) == {first, third} and second not in cache.iterdir()
    monkeypatch.setattr(compiling, "YOUNG", 3600)
    fourth = made("-O3")
    assert set(cache.iterdir()) == {first, third, fourth}, "they may be in use"


@pytest.fixture
def checkout(cache, tmp_path, monkeypatch):
    """`checkout(name)` -> a folder of sources, the same each time; and the names of the sources that the compiler was given."""
    calls, compile = [], compiling.compile
    monkeypatch.setattr(compiling, "compile", lambda *a, **k: calls.append(a[1][0].name) or compile(*a, **k))

    def make(name):
        folder = tmp_path / name
        (folder / "in a folder").mkdir(parents=True)
        (folder / "answer.h").write_text('#include "in a folder/deep.h"\n')
        (folder / "in a folder" / "deep.h").write_text("#define ANSWER 42\n")
        (folder / "other.h").write_text("#define OTHER 1\n")
        (folder / "main.cc").write_text('#include <vector>\n#include "answer.h"\nint main() { return ANSWER; }\n')
        return folder

    make.calls = calls
    return make


def object_in(folder, *flags):
    return compiling.cached_object(folder / "main.cc", ["-I", folder, *flags])


def test_an_object_is_of_the_headers_that_it_includes(checkout):
    folder = checkout("one")
    first = object_in(folder)
    assert object_in(folder) == first and checkout.calls == ["main.cc"]
    (folder / "other.h").write_text("#define OTHER 2\n")
    (folder / "answer.h").touch()
    assert object_in(folder) == first and len(checkout.calls) == 1
    (folder / "in a folder" / "deep.h").write_text("#define ANSWER 43\n")
    second = object_in(folder)
    assert second != first and len(checkout.calls) == 2
    (folder / "in a folder" / "deep.h").write_text("#define ANSWER 42\n")
    assert object_in(folder) == first and object_in(folder, "-O1") not in (first, second) and len(checkout.calls) == 3
    (folder / "main.cc").write_text("int main() { return 0; }\n")
    assert object_in(folder) not in (first, second) and len(checkout.calls) == 4
    (folder / "answer.h").unlink()  # nobody includes it now
    object_in(folder)
    assert len(checkout.calls) == 4


def test_another_checkout_finds_what_one_compiled(checkout):
    one, other = checkout("one"), checkout("two")
    assert object_in(one) == object_in(other) and len(checkout.calls) == 1
    (other / "answer.h").write_text("#define ANSWER 44\n")
    assert object_in(one) != object_in(other) and len(checkout.calls) == 2


def test_a_header_that_is_written_meanwhile_counts(checkout, monkeypatch):
    folder, compile = checkout("one"), compiling.compile

    def slow(*arguments, **options):
        made = compile(*arguments, **options)
        if len(checkout.calls) == 1:
            (folder / "answer.h").write_text("#define ANSWER 45\n")
        return made

    monkeypatch.setattr(compiling, "compile", slow)
    found = object_in(folder)
    assert len(checkout.calls) == 2 and object_in(folder) == found and len(checkout.calls) == 2


def test_two_processes_compile_it_once(cache, tmp_path, checkout):
    folder = checkout("one")
    log = tmp_path / "calls"
    (tmp_path / "noted").write_text(f'#!/bin/sh\ncase "$*" in *--version*) ;; *) echo call >> {log};; esac\nexec g++ "$@"\n')
    (tmp_path / "noted").chmod(0o755)
    code = f"""
from pathlib import Path
from ctrlab import compiling
print(compiling.cached_object(Path({str(folder / "main.cc")!r}), ["-I", {str(folder)!r}], by=({str(tmp_path / "noted")!r},)))
"""
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {each.communicate(timeout=100)[0] for each in both}
    assert len(said) == 1 and Path(said.pop().strip()).stat().st_size > 0
    assert log.read_text().split() == ["call"] and not [*cache.glob(".compiling-*")]


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
