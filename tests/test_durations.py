"""The list of slow cases: what is written into it, and what it decides."""

import pytest

from tests import durations

CASES = """
import pytest, time

def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

@pytest.fixture(scope="module")
def shared():
    work(0.2)

def test_quick(): pass
def test_first(shared): pass
def test_second(shared): pass
@pytest.mark.parametrize("seconds", [0, 0.2])
def test_either(seconds): work(seconds)
@pytest.mark.parametrize("seconds", [0.2, 0.4])
def test_both(seconds): work(seconds)
"""


@pytest.fixture
def project(pytester, monkeypatch):
    for name, seconds in (("SLOW", 0.15), ("SHOWN", 0.15), ("REFUSED", 0.35)):
        monkeypatch.setattr(durations, name, seconds)
    pytester.makeini("[pytest]\nmarkers = smoke: stays in the quick tier")
    pytester.mkdir("tests")
    pytester.makepyfile(**{"tests/test_a": "def test_only(): pass", "tests/test_b": CASES})
    return pytester


def run(project, *options):
    return project.runpytest_inprocess("-p", "tests.durations", "-p", "no:cacheprovider", "-p", "no:xdist", *options)


def test_a_run_records_what_the_next_leaves_out(project):
    run(project, "--record-durations").assert_outcomes(passed=8)
    path = project.path / "tests" / "slow.txt"
    found = durations.read(path)
    b = "tests/test_b.py::test_"
    assert list(found) == [f"{b}both", f"{b}either[0.2]", f"{b}first", f"{b}second"]  # by themselves, first and second are slow
    assert found[f"{b}both"] >= 0.6 and found[f"{b}first"] >= 0.2 > 0.1 > found[f"{b}second"]
    quick = run(project, "--quick", "-v")
    quick.assert_outcomes(passed=3, deselected=5)
    whole = run(project, "--hold-durations", "-v")
    assert whole.ret == 0
    assert whole.outlines.index(next(line for line in whole.outlines if "test_quick" in line)) < whole.outlines.index(
        next(line for line in whole.outlines if "test_only" in line)
    )
    whole.stdout.no_fnmatch_line("*not in tests/slow.txt*")


def test_slow_cases_that_are_not_listed_are_shown_and_very_slow_ones_refused(project):
    shown = run(project, "--hold-durations", "-k", "0.2")
    assert shown.ret == 0
    shown.stdout.fnmatch_lines(["*not in tests/slow.txt*", "*0.2 s  tests/test_b.py::test_*[[]0.2]", "*CI refuses*"])
    assert run(project, "-k", "0.4").ret == 0
    assert run(project, "--hold-durations", "-k", "0.4").ret == 1


def test_what_ends_with_the_session_is_no_cost_of_the_last_case(project):
    ends = "def test_only(served): pass\n\n@pytest.fixture(scope='session')\ndef served():\n    yield\n    work(0.4)"
    project.makepyfile(**{"tests/test_b": CASES.partition("@")[0] + ends})
    whole = run(project, "--hold-durations", "-k", "only")
    assert whole.ret == 0
    whole.stdout.no_fnmatch_line("*not in tests/slow.txt*")


def test_what_did_not_run_stays_listed():
    listed = {"f.py::test_a": 3.0, "f.py::test_b[1]": 1.0, "f.py::test_c": 2.0}
    own = {"f.py::test_b[1]": 0.1, "f.py::test_b[2]": 0.9, "f.py::test_c": 0.2}
    assert durations.updated(listed, own, own) == {"f.py::test_a": 3.0, "f.py::test_b[2]": 0.9}


def test_one_case_by_itself_leaves_the_others_listed():
    quick, slow = {"f.py::test[a]": 0.1}, {"f.py::test[a]": 3.0}
    assert durations.updated({"f.py::test[b]": 3.0}, quick, quick) == {"f.py::test[b]": 3.0}
    assert durations.updated({"f.py::test[b]": 0.9}, slow, slow) == {"f.py::test[a]": 3.0, "f.py::test[b]": 0.9}


def test_smoke_stays(project):
    project.makepyfile(**{"tests/test_b": "import pytest\n@pytest.mark.smoke\ndef test_listed(): pass\ndef test_other(): pass"})
    (project.path / "tests" / "slow.txt").write_text("1.0 tests/test_b.py::test_listed\n1.0 tests/test_b.py::test_other\n")
    run(project, "--quick").assert_outcomes(passed=2, deselected=1)
