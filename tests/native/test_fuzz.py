"""The string parsers under a fuzzer, with their scalar twins beside them: it ends well on ours, and finds what is planted."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from compiled import NATIVE, program, sanitized, units

FLAGS = ["-std=c++20", *sanitized("address,undefined"), "-Wno-psabi"]


def build(native: Path) -> Path:
    """The fuzzer of the kernels in `native`. Only these are watched; linked first, so that what is inline is theirs."""
    watched = units([native / "kernels" / "parsing" / "parsing.cc"], ["-fsanitize-coverage=trace-pc"])
    return program("fuzz", watched + units([NATIVE / "fuzz" / "fuzz_parsing.cc"]), FLAGS, native=native)


@pytest.fixture(scope="module")
def fuzzer():
    return build(NATIVE)


def fuzz(program: Path, seed: int, inputs: int, seconds: int) -> subprocess.CompletedProcess:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, str(seed), str(inputs), str(seconds)], capture_output=True, text=True, env=environment)


def inputs_of(ran: subprocess.CompletedProcess) -> int:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return int(re.search(r"^(\d+) inputs", ran.stdout, re.MULTILINE)[1])


def test_the_parsers_agree_with_their_twins_for_ten_seconds(fuzzer):
    assert inputs_of(fuzz(fuzzer, seed=int.from_bytes(os.urandom(4)), inputs=10**9, seconds=10)) > 1_000


@pytest.mark.long
def test_the_parsers_agree_with_their_twins_on_ten_million_inputs(fuzzer):
    assert inputs_of(fuzz(fuzzer, seed=1, inputs=10**7, seconds=10**6)) == 10**7


PLANTED = {
    "a byte past the end": ("text.h", "for (; i + 8 <= n; i += 8)", "for (; i + 7 <= n; i += 8)"),
    "a number rounded twice": ("number.h", "(std::bit_cast<uint64_t>(quotient) & kBelowFloat) == kHalf", "false"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(planted, tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "cache"))
    file, right, wrong = PLANTED[planted]
    path = Path(shutil.copytree(NATIVE / "kernels", tmp_path / "kernels")) / "parsing" / file
    source = path.read_text()
    assert right in source
    path.write_text(source.replace(right, wrong))
    ran = fuzz(build(tmp_path), seed=1, inputs=10**7, seconds=60)
    assert ran.returncode != 0 and "the input:" in ran.stdout, ran.stdout + ran.stderr
