"""The cost of each case: CPU seconds of the tests' process and of those that it starts. A plugin of pytest.

`slow.txt` lists the cases that take over half a second by themselves, with the seconds that they were once seen to take. From it
`--quick` knows what to leave out, every run knows which file to start first, and a case that is slow and not listed is shown at
the end of a run.

    pytest --record-durations tests/embedding        # writes down what ran; the other lines stay
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests import forked

SLOW, SHOWN, REFUSED = 0.5, 2.0, 6.0
"""CPU seconds: from which a case is listed, is shown where it isn't, and fails `--hold-durations` where it isn't."""


def spent() -> float:
    """CPU seconds of this process, and of the processes that have ended for it."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system + forked.spent()


# The list.


def read(path: Path) -> dict[str, float]:
    """Seconds by case, or by test where all its cases are slow."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {case: float(seconds) for seconds, case in (line.split(" ", 1) for line in lines)}


def test_of(case: str) -> str:
    """The name of a case without its parameters."""
    return case.partition("[")[0]


def file_of(case: str) -> str:
    return case.partition("::")[0]


def is_listed(case: str, listed: dict[str, float]) -> bool:
    return case in listed or test_of(case) in listed


def updated(listed: dict[str, float], own: dict[str, float], alone: dict[str, float]) -> dict[str, float]:
    """The list after a run.

    Args:
        own: seconds that each case took.
        alone: seconds that it would have taken if nothing that cases share had been there.
    """
    tests = defaultdict(list)
    for case in own:
        tests[test_of(case)].append(case)
    found = {line: seconds for line, seconds in listed.items() if line not in own and line not in tests}
    for test, cases in tests.items():
        slow = [case for case in cases if alone[case] >= SLOW]
        if len(slow) == len(cases) and not any(test_of(line) == test for line in found):
            found[test] = sum(own[case] for case in cases)
        else:
            found |= {case: own[case] for case in slow}
    return found


def write(listed: dict[str, float], path: Path) -> None:
    path.write_text("".join(f"{seconds:.1f} {case}\n" for case, seconds in sorted(listed.items())))


# The plugin.


def pytest_addoption(parser):
    group = parser.getgroup("durations of cases")
    group.addoption("--quick", action="store_true", help="leave out what tests/slow.txt lists, except for cases marked smoke")
    group.addoption("--record-durations", action="store_true", help="write the slow cases of this run into tests/slow.txt")
    group.addoption("--hold-durations", action="store_true", help=f"fail if a case that isn't listed takes over {REFUSED:g} s")


def pytest_configure(config):
    config.pluginmanager.register(Durations(config), "durations of cases")


class Durations:
    """Measures, in a process that runs cases; gathers and tells, in the one that the user started."""

    def __init__(self, config):
        self.config, self.path = config, config.rootpath / "tests" / "slow.txt"
        self.listed = read(self.path)
        self.own: dict[str, float] = defaultdict(float)
        self.alone: dict[str, float] = defaultdict(float)
        self._shared: dict[int, float] = {}  # of fixtures that serve several cases
        self._fresh: set[int] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Files in order of their seconds, longest first, and the cases of each as they were."""
        if self.config.getoption("quick"):
            left = [item for item in items if is_listed(item.nodeid, self.listed) and not item.get_closest_marker("smoke")]
            self.config.hook.pytest_deselected(items=left)
            out = set(left)
            items[:] = [item for item in items if item not in out]
        files: dict[str, float] = defaultdict(float)
        for case, seconds in self.listed.items():
            files[file_of(case)] += seconds
        items.sort(key=lambda item: -files[file_of(item.nodeid)])

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        began = spent()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared[id(fixturedef)] = spent() - began
                self._fresh.add(id(fixturedef))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self._mark = spent()
        self._fresh.clear()
        self._is_last = nextitem is None
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        if not isinstance(item, pytest.Function):  # a cell of a notebook, which works in another process
            return report
        report.cpu = spent() - self._mark
        self._mark += report.cpu
        if report.when == "teardown" and self._is_last:  # what serves the session ends, and so do its processes
            report.cpu = 0.0
        report.shared = 0.0
        if report.when == "call" and hasattr(item, "_fixtureinfo"):  # a cell of a notebook has none
            used = {id(each[-1]) for each in item._fixtureinfo.name2fixturedefs.values()}
            report.shared = sum(self._shared.get(fixture, 0.0) for fixture in used - self._fresh)
        return report

    def pytest_runtest_logreport(self, report):
        seconds = getattr(report, "cpu", 0.0)  # one of a process that died has none
        self.own[report.nodeid] += seconds
        self.alone[report.nodeid] += seconds + getattr(report, "shared", 0.0)

    def unlisted(self, over: float) -> dict[str, float]:
        """Cases that take longer and are not listed, longest first."""
        found = {case: s for case, s in self.own.items() if s > over and not is_listed(case, self.listed)}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def pytest_sessionfinish(self, session):
        if hasattr(self.config, "workerinput"):
            return
        if self.config.getoption("record_durations"):
            self.listed = updated(self.listed, self.own, self.alone)
            write(self.listed, self.path)
        if self.config.getoption("hold_durations") and self.unlisted(REFUSED) and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if not (found := self.unlisted(SHOWN)):
            return
        terminalreporter.section(f"over {SHOWN:g} s of CPU and not in tests/slow.txt")
        for case, seconds in found.items():
            terminalreporter.line(f"{seconds:6.1f} s  {case}")
        terminalreporter.line(f"Make them quicker, or list them by --record-durations. CI refuses over {REFUSED:g} s.")
