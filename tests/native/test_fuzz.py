"""Parsers under a fuzzer, of strings beside their scalar twins, and of requests: it ends well, and finds what is planted."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from compiled import NATIVE, SIMDJSON, program, sanitized, simdjson, units

FLAGS = ["-std=c++20", *sanitized("address,undefined"), "-Wno-psabi"]


def build(native: Path) -> Path:
    """The fuzzer of the kernels in `native`. Only these are watched; linked first, so that what is inline is theirs."""
    watched = units([native / "kernels" / "parsing" / "parsing.cc"], ["-fsanitize-coverage=trace-pc"])
    return program("fuzz", watched + units([native / "fuzz" / "fuzz_parsing.cc"]), FLAGS, native=native)


def build_requests(native: Path) -> Path:
    """The fuzzer of the processor's parsers in `native`."""
    watched = units(
        [native / "processor" / f"{name}.cc" for name in ("inference", "json", "predict")],
        ["-isystem", SIMDJSON, "-fsanitize-coverage=trace-pc"],
    )
    parts = watched + units([native / "fuzz" / "fuzz_requests.cc"])
    return program("fuzz_requests", parts, FLAGS, native=native, libraries=[simdjson(FLAGS)])


def with_planted(folder: Path, file: str, right: str, wrong: str) -> Path:
    """A copy of our sources with one of them wrong: what does not include that one is compiled already."""
    native = Path(shutil.copytree(NATIVE, folder / "native"))
    source = (native / file).read_text()
    assert right in source
    (native / file).write_text(source.replace(right, wrong))
    return native


@pytest.fixture(scope="module")
def fuzzer():
    return build(NATIVE)


@pytest.fixture(scope="module")
def request_fuzzer():
    return build_requests(NATIVE)


def fuzz(program: Path, seed: int, inputs: int, seconds: int) -> subprocess.CompletedProcess:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, str(seed), str(inputs), str(seconds)], capture_output=True, text=True, env=environment)


def inputs_of(ran: subprocess.CompletedProcess) -> int:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return int(re.search(r"^(\d+) inputs", ran.stdout, re.MULTILINE)[1])


def each_gets_its_share(ran: subprocess.CompletedProcess) -> bool:
    """Whether each of the eight parsers of requests got near an eighth of the inputs, whatever was kept."""
    of_parsers = [int(number) for number in re.findall(r"[ijkpIJKP]: (\d+)", ran.stdout)]
    return len(of_parsers) == 8 and min(of_parsers) > inputs_of(ran) / 10


def test_the_parsers_agree_with_their_twins_for_ten_seconds(fuzzer):
    assert inputs_of(fuzz(fuzzer, seed=int.from_bytes(os.urandom(4)), inputs=10**9, seconds=10)) > 1_000


@pytest.mark.long
def test_the_parsers_agree_with_their_twins_on_ten_million_inputs(fuzzer):
    assert inputs_of(fuzz(fuzzer, seed=1, inputs=10**7, seconds=10**6)) == 10**7


def test_no_request_breaks_its_parser_for_ten_seconds(request_fuzzer):
    ran = fuzz(request_fuzzer, seed=int.from_bytes(os.urandom(4)), inputs=10**9, seconds=10)
    assert inputs_of(ran) > 1_000 and each_gets_its_share(ran), ran.stdout


@pytest.mark.long
def test_no_request_of_a_million_breaks_its_parser(request_fuzzer):
    ran = fuzz(request_fuzzer, seed=1, inputs=10**7, seconds=10**6)
    assert inputs_of(ran) == 10**7 and each_gets_its_share(ran), ran.stdout


PLANTED_IN_REQUESTS = {
    "floats too many": (
        "inference.cc",
        "if (count < n) values[count] = value;",
        "values[count] = value;",
    ),
    "a value too many": ("predict.cc", "if (count < n) out[count] = value;", "out[count] = value;"),
    "candidates of nobody": ("received.h", "if (fits && left == 0) return {};", "if (fits) return {};"),
    "a number that is none": ("received.h", "!IsFinite(values[k])", "false"),
    "a split too many": (
        "json.cc",
        "filler_->SetSplit(splits, row + 1, counts_[c]);",
        "filler_->SetSplit(splits, row + 2, counts_[c]);",
    ),
}


@pytest.mark.parametrize("planted", PLANTED_IN_REQUESTS)
def test_what_is_planted_in_a_parser_of_requests_is_found(planted, tmp_path):
    file, right, wrong = PLANTED_IN_REQUESTS[planted]
    ran = fuzz(build_requests(with_planted(tmp_path, f"processor/{file}", right, wrong)), seed=1, inputs=10**7, seconds=60)
    assert ran.returncode != 0 and "the input:" in ran.stdout, ran.stdout + ran.stderr


PLANTED = {
    "a byte past the end": ("text.h", "for (; i + 8 <= n; i += 8)", "for (; i + 7 <= n; i += 8)"),
    "a number rounded twice": ("number.h", "(std::bit_cast<uint64_t>(quotient) & kBelowFloat) == kHalf", "false"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(planted, tmp_path):
    file, right, wrong = PLANTED[planted]
    ran = fuzz(build(with_planted(tmp_path, f"kernels/parsing/{file}", right, wrong)), seed=1, inputs=10**7, seconds=60)
    assert ran.returncode != 0 and "the input:" in ran.stdout, ran.stdout + ran.stderr
