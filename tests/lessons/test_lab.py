"""The changes of `ctrlab lab` to a working folder, and the server that it starts."""

import json
import socket

import pytest

from ctrlab.errors import BadData, CtrlabError
from ctrlab.lessons import cheat_sheet, glossary, index, lab, notebook
from ctrlab.lessons.progress import Store
from ctrlab.profiling import doctor

NAME = "01_part/01_topic"


@pytest.fixture
def lessons(tmp_path, monkeypatch):
    """One lesson whose learner's notebook a test can change."""
    source = tmp_path / "source"
    source.write_text("first")
    made = {cheat_sheet.PAGE: "a page", glossary.PAGE: "a page"}
    monkeypatch.setattr(lab.build, "lessons", dict)
    monkeypatch.setattr(lab.build, "workbook", lambda lessons: {f"{NAME}.ipynb": source.read_text()} | made)
    return source


def test_copies_updates_the_untouched_and_never_a_touched_one(lessons, work):
    mine, beside = work / f"{NAME}.ipynb", work / f"{NAME}.new.ipynb"
    assert lab.copy_lessons(work) == [] and mine.read_text() == "first"
    lessons.write_text("second")
    assert lab.copy_lessons(work) == [] and mine.read_text() == "second" and not beside.exists()
    mine.write_text("my answers")
    assert lab.copy_lessons(work) == []  # the lesson is no newer than what was copied
    lessons.write_text("third")
    assert "was left as it is" in lab.copy_lessons(work)[0]
    assert (mine.read_text(), beside.read_text()) == ("my answers", "third")
    assert lab.copy_lessons(work) == []
    beside.write_text("answers there too")
    lessons.write_text("fourth")
    assert "rename it" in lab.copy_lessons(work)[0]
    assert (mine.read_text(), beside.read_text()) == ("my answers", "answers there too")


def test_a_file_that_was_never_copied_is_the_learners(lessons, work):
    mine = work / f"{NAME}.ipynb"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own")
    lab.copy_lessons(work)
    assert mine.read_text() == "my own"


def test_a_deleted_copy_comes_back(lessons, work):
    lab.copy_lessons(work)
    (work / f"{NAME}.ipynb").unlink()
    lab.copy_lessons(work)
    assert (work / f"{NAME}.ipynb").read_text() == "first"


def test_a_workbook_of_the_first_layout_is_taken_over(lessons, work, monkeypatch):
    """Then the learners' notebooks were committed, and studies were modules of ctrlab.lessons."""
    untouched, mine = work / "01_part/02_other.ipynb", work / f"{NAME}.ipynb"
    mine.parent.mkdir(parents=True)
    untouched.write_text("as it was")
    mine.write_text(
        "from ctrlab.lessons import check, shards_study as study\nfrom ctrlab.lessons.checks.tiers import zipf\n"
        "from ctrlab.lessons import (\n    gate,\n    crowd,\n)\nfrom ctrlab.features import Schema\nmy answers"
    )
    copied = {
        "01_part/02_other.ipynb": lab._hash("as it was"),
        f"{NAME}.ipynb": lab._hash("from ctrlab.lessons import shards_study"),
    }
    (work / lab.MANIFEST).write_text(json.dumps(copied))
    kept = {"lesson": "02_ops/01_indicator_column", "passed": [1], "solutions": [2], "predictions": {"step": 3.0}}
    (work / "progress").mkdir()
    (work / "progress/02_ops.01_indicator_column.json").write_text(json.dumps(kept))
    made = {"01_part/02_other.ipynb": "as it is", f"{NAME}.ipynb": "first"}
    monkeypatch.setattr(lab.build, "workbook", lambda lessons: made)
    told = lab.copy_lessons(work)
    assert untouched.read_text() == "as it is" and mine.read_text().endswith("my answers")
    assert (work / f"{NAME}.new.ipynb").read_text() == "first"
    assert len(told) == 2 and "left as it is" in told[0]
    gone = "ctrlab.features, ctrlab.lessons.checks.tiers, ctrlab.lessons.crowd, ctrlab.lessons.shards_study"
    assert f"imports {gone}, which moved" in told[1]
    record = Store().load("02_ops/01_indicator_column")
    assert (record.passed, record.solutions, record.predictions) == ([1], [2], {"step": 3.0})
    assert lab.copy_lessons(work) == []


def test_a_broken_list_of_copies_is_one_sentence(lessons, work):
    work.mkdir()
    (work / lab.MANIFEST).write_text("{")
    with pytest.raises(BadData, match="Delete it"):
        lab.copy_lessons(work)


def test_a_taken_port_is_one_sentence_and_writes_nothing(work):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CtrlabError, match=f"Port {port} is taken.*--port {port + 1}"):
            lab.open_lab(port=port, browser=False)
    assert not work.exists()


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_no_port_is_one_sentence(port, work):
    with pytest.raises(CtrlabError, match="from 1 to 65535"):
        lab.open_lab(port=port)


def test_the_server_listens_on_loopback_with_a_token_that_ps_cannot_see(work, monkeypatch):
    seen = {}

    class Ran:
        returncode = 0

    def run(command, env, check):
        seen.update(command=command, token=env["JUPYTER_TOKEN"])
        return Ran

    monkeypatch.setattr(lab.subprocess, "run", run)
    monkeypatch.setattr(lab.doctor, "examine", lambda: doctor.Report(()))
    monkeypatch.setattr(lab.doctor, "port_is_free", lambda port: True)
    assert lab.open_lab(port=8901, browser=False) == 0
    assert "--ServerApp.ip=127.0.0.1" in seen["command"] and "--ServerApp.port=8901" in seen["command"]
    assert len(seen["token"]) == 48 and not any(seen["token"] in part for part in seen["command"])
    assert (work / "index.ipynb").exists()


def test_the_index_shows_map_machine_progress_and_syllabi(work):
    work.mkdir()
    index.write(work, doctor.Report((doctor.Finding("disk", "1 GB | free", "2 GB", "limited", "Free some."),)))
    nb = notebook.read(work / "index.ipynb")
    text = "\n".join(c.source for c in nb.cells)
    for needed in ("To come", "01_indicator_column.ipynb", "1 GB \\| free", "Free some.", "show_progress()", "8 hours"):
        assert needed in text
