"""From the solved notebook to the learner's."""

import copy
import json

import nbformat
import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import build, notebook, places

PYTHON = 'def double(x):\n    """Twice x."""\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n'
CLASS = """class Count:
    \"""A count.\"""

    ### BEGIN SOLUTION
    def __init__(self):
        self.n = 0

    def add(self, n):
        \"""Adds n.\"""
        def inner(): ...
        self.n += n
    ### END SOLUTION
"""
KERNEL = "%%kernel indicator\nvoid f() {\n  // ### BEGIN SOLUTION\n  g();\n  // ### END SOLUTION\n}\n"


def cell(kind, text, *tags, **more):
    return {"cell_type": kind, "id": f"{kind}-{len(text)}", "metadata": {"tags": list(tags)}, "source": text, **more}


def solved():
    said = {"output_type": "stream", "name": "stdout"}
    nb = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "ctrlab": {"title": "Double"},
            "widgets": {"state": "4.8 MB"},
            "kernelspec": {"name": "mine", "display_name": "M"},
        },
        "cells": [
            cell("markdown", "# Double\n\n## Exercise 1: twice (easy)\n\n## Exercise 2: in C++ (medium)"),
            cell("code", PYTHON, "exercise-1", execution_count=7, outputs=[said | {"text": "hm"}]),
            cell(
                "code",
                "lab.check(1, double)",
                "check-1",
                notebook.KEEP_OUTPUT,
                execution_count=8,
                outputs=[said | {"text": "passed"}],
            ),
            cell("markdown", "A hint.\n\n<!-- solution 1 -->"),
            cell("code", KERNEL, "exercise-2", execution_count=None, outputs=[]),
            cell("markdown", "<!-- solution 2 -->\n\n**Key points**\n\n1. Two times."),
        ],
    }
    nbformat.validate(nb)
    return nbformat.from_dict(nb)


def test_methods_keep_their_signatures():
    nb = solved()
    nb.cells[1].source = CLASS
    raises = '        raise NotImplementedError("Exercise 1: write this, then run its check")'
    assert notebook.learner(nb).cells[1].source == (
        'class Count:\n    """A count."""\n\n    def __init__(self):\n'
        f'{raises}\n\n    def add(self, n):\n        """Adds n."""\n{raises}'
    )


def test_learner_has_stubs_and_folds_and_no_outputs():
    mine = notebook.learner(solved())
    texts = [c.source for c in mine["cells"]]
    assert (
        texts[1]
        == 'def double(x):\n    """Twice x."""\n    raise NotImplementedError("Exercise 1: write this, then run its check")'
    )
    assert texts[3].startswith("A hint.\n\n<details><summary>Solution</summary>\n\n```python\nreturn 2 * x\n```")
    assert '  #error "Exercise 2: write this' in texts[4] and "g();" not in texts[4]
    assert "```cpp\ng();\n```" in texts[5]
    assert all(not c["outputs"] and c["execution_count"] is None for c in mine["cells"] if c["cell_type"] == "code")


def test_canonical_keeps_only_compared_outputs_and_is_stable():
    once = notebook.canonical(solved())
    assert [c.get("outputs") for c in once["cells"][:3]] == [
        None,
        [],
        [{"name": "stdout", "output_type": "stream", "text": "passed"}],
    ]
    assert once["metadata"]["kernelspec"]["name"] == "python3" and "widgets" not in once["metadata"]
    assert notebook.dumps(notebook.canonical(nbformat.reads(notebook.dumps(once), as_version=4))) == notebook.dumps(once)


@pytest.mark.parametrize("change", ["no region", "no tag", "two regions", "no end", "no fold"])
def test_a_lesson_that_is_not_whole_is_refused(change):
    nb = copy.deepcopy(solved())
    exercise = nb["cells"][1]
    if change == "no region":
        exercise["source"] = "def double(x): return 2 * x"
    elif change == "no tag":
        exercise["metadata"]["tags"] = []
    elif change == "two regions":
        exercise["source"] = PYTHON + PYTHON
    elif change == "no end":
        exercise["source"] = PYTHON.replace("### END SOLUTION", "")
    else:
        nb["cells"][3]["source"] = "A hint."
    with pytest.raises(BadData):
        notebook.learner(nb)


NOT_ITS_CELLS = ([{"source": 1}], [cell("raw", "a", execution_count=1)], [cell("markdown", "a"), cell("markdown", "b")])


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"nbformat": 3, "cells": []}', '{"nbformat": 4}'),
        *(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}) for cells in NOT_ITS_CELLS),
    ],
)
def test_no_notebook_is_one_sentence(tmp_path, text):
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    with pytest.raises(BadData, match=r"broken\.ipynb") as refused:
        notebook.read(path)
    assert "\n" not in str(refused.value)


def test_a_cell_without_an_id_is_called_after_its_place(tmp_path):
    path = tmp_path / "old.ipynb"
    old = solved()
    del old.cells[1]["id"]
    path.write_text(json.dumps(old))
    assert notebook.read(path).cells[1].id == "cell-01"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    (folder / "01_part" / "01_double").mkdir(parents=True)
    (folder / "01_part" / "01_double" / "lesson.ipynb").write_text(json.dumps(solved()))
    monkeypatch.setattr(places, "notebooks", lambda: folder)
    for page, name in ((folder / "README.md", "course"), (tmp_path / "README.md", "ladder")):
        page.write_text(f"# Title\n<!-- {name}: here -->\nold\n<!-- end of {name} -->\n")
    return folder


def test_build_writes_once_and_check_finds_what_is_stale(checkout):
    lesson = checkout / "01_part" / "01_double" / "lesson.ipynb"
    pages = {checkout / page for page in ("cheat_sheet.md", "glossary.md", "README.md")}
    made = {lesson, checkout.parent / "README.md", *pages}
    assert set(build.build(check=True)) == made and not (checkout / "glossary.md").exists()
    assert set(build.build()) == made and build.build(check=True) == []
    assert notebook.SOLVED in notebook.read(lesson).cells[0].source
    lesson.write_text(lesson.read_text().replace(notebook.SOLVED.strip(), "> This is the lesson."))
    assert build.build(check=True) == [lesson]


def test_the_workbook_holds_learners_notebooks_and_pages(checkout):
    made = build.workbook(build.lessons())
    assert set(made) == {"01_part/01_double.ipynb", "cheat_sheet.md", "glossary.md"}
    assert (
        "NotImplementedError" in made["01_part/01_double.ipynb"] and "This is the solved" not in made["01_part/01_double.ipynb"]
    )
    assert "(01_part/01_double.ipynb)" in made["cheat_sheet.md"]


def test_build_fails_without_a_lesson(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "notebooks", lambda: tmp_path)
    with pytest.raises(BadData, match="holds none"):
        build.build()
