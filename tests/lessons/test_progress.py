"""Records survive a session; a broken file is one sentence."""

import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import course, index
from ctrlab.lessons.progress import NOT_JUDGED, Record, Speed, Store, Verdict

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


def test_the_progress_table_shows_what_was_done_and_survives_a_broken_file(work, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    store = Store()
    record = Record(LESSON, {"step": 3.0}, [1, 2], [2], Verdict(LESSON, "lesson", "a CPU", (2,), None, speed("yes")))
    store.save(record)
    broken = next(entry for entry in course.lessons() if entry.name != LESSON)
    store.path(broken.name).write_text("{")
    index.show_progress()
    out = capsys.readouterr().out
    for needed in ("passed", "1, 2", "step 3", "fused 8.5x at profile lesson", "Delete it"):
        assert needed in out
