"""Records survive a session; a broken file is one sentence."""

import subprocess
import sys

import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import course, index, notebook
from ctrlab.lessons.progress import NOT_JUDGED, Record, Speed, Store, Verdict
from ctrlab.profiling import doctor

LESSON = "02_ops/01_indicator_column"


def speed(verdict):
    return Speed("fused", 2.0, 8.5, 7.9, 9.1, verdict)


def test_a_record_comes_back_as_it_was(tmp_path):
    verdict = Verdict(LESSON, "lesson", "a CPU", (2,), 1e-7, speed("yes"), {"the losses agree": True})
    record = Record(LESSON, {"speedup": 5.0}, [1, 2], [2], verdict)
    store = Store(tmp_path / "progress")
    assert store.load(LESSON) == Record(LESSON)
    store.save(record)
    assert store.load(LESSON) == record
    assert [p.name for p in store.folder.iterdir()] == ["02_ops.01_indicator_column.json"]


@pytest.mark.parametrize(
    "verdict, passed, word",
    [("yes", True, "passed"), (NOT_JUDGED, True, "passed"), ("inconclusive", False, "inconclusive"), ("no", False, "not passed")],
)
def test_a_verdict_in_a_word(verdict, passed, word):
    found = Verdict(LESSON, "lesson", "a CPU", speed=speed(verdict))
    assert (found.passed, str(found), Record(LESSON, verdict=found).state) == (passed, word, word)


def test_a_claim_that_does_not_hold_fails():
    assert str(Verdict(LESSON, "lesson", "a CPU", speed=speed("inconclusive"), claims={"x": False})) == "not passed"


def test_states_before_a_verdict():
    assert Record(LESSON).state == "new"
    assert Record(LESSON, predictions={"speedup": 2.0}).state == "started"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"lesson": "x", "odd": 1}', '{"lesson": "x", "verdict": {"odd": 1, "speed": null}}']
)
def test_a_broken_file_is_one_sentence(tmp_path, text):
    store = Store(tmp_path)
    store.path(LESSON).write_text(text)
    with pytest.raises(BadData, match="Delete it"):
        store.load(LESSON)


def test_what_is_no_file_or_too_deep_is_one_sentence(tmp_path):
    store = Store(tmp_path)
    store.path(LESSON).write_text("[" * 100_000)
    with pytest.raises(BadData, match="Delete it"):
        store.load(LESSON)
    store.path(LESSON).unlink()
    store.path(LESSON).mkdir()
    with pytest.raises(BadData, match=r"can't be read: Is a directory. Mend that"):
        store.load(LESSON)


def test_a_record_of_another_lesson_is_left_alone(tmp_path):
    store, other = Store(tmp_path), "02_ops/02_one_lookup"
    store.save(Record(other, passed=[1]))
    store.path(other).rename(store.path(LESSON))
    for touch in (store.load, lambda lesson: store.change(lesson, lambda record: record.add_pass(2))):
        with pytest.raises(BadData, match=f"must be of lesson {LESSON}; it is of {other}"):
            touch(LESSON)


def test_changes_of_several_processes_are_all_kept(tmp_path):
    """Each of three adds its own ten exercises, one at a time."""
    program = """
import sys
from pathlib import Path
from ctrlab.lessons.progress import Store

for exercise in range(int(sys.argv[2]), int(sys.argv[2]) + 10):
    Store(Path(sys.argv[1])).change("01_part/01_topic", lambda record: record.add_pass(exercise))
"""
    started = [subprocess.Popen([sys.executable, "-c", program, tmp_path, str(first)]) for first in (0, 10, 20)]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    assert Store(tmp_path).load("01_part/01_topic").passed == list(range(30))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"lesson": "x"}'])
def test_the_index_is_written_beside_an_unreadable_record(work, text):
    store = Store()
    store.save(Record("02_ops/02_one_lookup", passed=[1]))
    store.path(LESSON).write_text(text)
    index.write(work, doctor.Report(()))
    rows = [line for c in notebook.read(work / "index.ipynb").cells for line in c.source.splitlines() if "](02_ops/0" in line]
    assert [row.split(" | ")[3] for row in rows[:2]] == ["unreadable", "started"]


def test_the_progress_table_shows_what_was_done_and_survives_a_broken_file(work, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    store = Store()
    record = Record(LESSON, {"step": 3.0}, [1, 2], [2], Verdict(LESSON, "lesson", "a CPU", (2,), None, speed("yes")))
    store.save(record)
    broken = next(entry for entry in course.lessons() if entry.name != LESSON)
    store.path(broken.name).write_text("{")
    index.show_progress()
    out = capsys.readouterr().out
    for needed in ("passed", "1, 2", "step 3", "fused 8.5x at profile lesson", "unreadable", "Delete it"):
        assert needed in out
