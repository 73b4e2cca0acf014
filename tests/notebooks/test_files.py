"""Every lesson as a file: it is as built, nothing of a run is left in it, and it keeps the limits of a lesson."""

import re
from pathlib import Path

import pytest
from nbformat import v4

from ctrlab.lessons import build, check, course, effort, notebook, places

FOLDER = places.notebooks()
SOLVED = [folder / "lesson.ipynb" for folder in places.folders().values()]

NOTES = ("## Say", "## Ask", "## Usual mistakes", "## When late", "## Ranges to expect")
MORE_NOTES = ("## Plan by the minute", "## Rescue point", "## A recorded run")  # of the lessons that end with a quiz
UNITS = r"ns|µs|us|ms|s|secs?|seconds?|hours?|h|[GMT]?FLOP/s|[kMGT]?B/s|(?:rows|steps|samples)(?:/s| per second| a second)"
TIME_OR_RATE = re.compile(rf"\b\d[\d.,]*\s?(?:{UNITS})\b")
FILE = re.compile(r"\b(?:ctrlab|native)/[\w/]+\.(?:py|h|cc|cu|c)\b")


def name(path: Path) -> str:
    return str(path.parent.relative_to(FOLDER))


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=name)


def cells(path: Path, kind: str) -> list[dict]:
    return [c for c in notebook.read(path)["cells"] if c["cell_type"] == kind]


def test_everything_is_as_built():
    assert build.build(check=True) == [], "run `python -m ctrlab.lessons.build`"


@each(SOLVED)
def test_canonical(path):
    nb = notebook.read(path)
    assert path.stat().st_size < 200_000
    assert set(nb["metadata"]) == {"ctrlab", "kernelspec", "language_info"}
    ids = [c["id"] for c in nb["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z][a-z0-9-]*", i) for i in ids)
    assert all(c["execution_count"] is None for c in cells(path, "code"))


@each(SOLVED)
def test_the_first_cell_says_that_the_lesson_is_solved_and_the_learners_does_not(path):
    solved = notebook.read(path)
    assert notebook.SOLVED in solved.cells[0].source
    assert not any(notebook.SOLVED in cell.source for cell in notebook.learner(solved).cells)


TWO_INTERVALS = re.compile(r"\.(low\b.*[<>].*\.high|high\b.*[<>].*\.low)\b")


@each(SOLVED)
def test_no_interval_is_held_against_another(path):
    """Variants are compared in pairs, by the interval of their ratio: `comparison.ratio(variant, to=other)`."""
    lines = [line for cell in cells(path, "code") for line in cell.source.splitlines()]
    apart = [line for line in lines if TWO_INTERVALS.search(line) and not re.search(r"(\w+)\.low <= [\d.]+ <= \1\.high", line)]
    assert not apart


@each(SOLVED)
def test_learners_have_no_outputs_and_no_solutions(path):
    nb = notebook.learner(notebook.read(path))
    assert all(cell.outputs == [] for cell in nb.cells if cell.cell_type == "code")
    assert "BEGIN SOLUTION" not in notebook.dumps(nb) and "NotImplementedError" in notebook.dumps(nb)


@each(SOLVED)
def test_limits(path):
    nb = notebook.read(path)
    code = cells(path, "code")
    words = effort.words(nb)
    lines = sum(sum(1 for line in c.source.splitlines() if line.strip()) for c in code)
    longest = max(len(c.source.splitlines()) for c in nb["cells"])
    assert 20 <= len(nb["cells"]) <= 32, f"{len(nb['cells'])} cells"
    assert words <= 1_400, f"{words} words"
    assert lines < 130, f"{lines} lines of code"
    assert longest <= 25, f"a cell of {longest} lines"


@each(SOLVED)
def test_the_title_tells_the_effort(path):
    found, title = effort.effort(notebook.read(path)), cells(path, "markdown")[0].source
    assert f"| {found.read} minutes | {found.do} minutes | {found.difficulty} | {found.writes} |" in title


@each(SOLVED)
def test_the_files_it_names_are_there(path):
    named = {file for c in notebook.read(path)["cells"] for file in FILE.findall(c.source)}
    assert [file for file in sorted(named) if not (FOLDER.parent / file).is_file()] == []


@each(SOLVED)
def test_no_absolute_time_in_prose(path):
    """Times of the machine at hand mean nothing elsewhere; what others published is quoted in a cell tagged so."""
    for cell in cells(path, "markdown"):
        if "published" not in notebook.tags(cell):
            assert not TIME_OR_RATE.findall(cell.source), cell.source


@pytest.mark.parametrize("text", ["takes 500 ms", "500 -> 75 ms", "10 GB/s", "428 GFLOP/s", "2 seconds", "1.5 s", "3,000 rows/s"])
def test_the_search_for_times_finds(text):
    assert TIME_OR_RATE.search(text)


@pytest.mark.parametrize("text", ["35 minutes", "8x as fast", "4 bytes a row", "2 steps", "V = 10,000", "32 MB"])
def test_the_search_for_times_lets_pass(text):
    assert not TIME_OR_RATE.search(text)


@each(SOLVED)
def test_every_exercise_has_region_fold_check_and_way_out(path):
    nb = notebook.read(path)
    exercises = sorted(notebook.solutions(nb))
    lesson = course.read_lesson(path)
    assert exercises and exercises == sorted(check.checks_of(lesson.name))
    text = "\n".join(c.source for c in nb.cells)
    for n in exercises:
        assert sum(f"check-{n}" in notebook.tags(c) and f"lab.check({n}, " in c.source for c in nb["cells"]) == 1
        assert f"# lab.use_solution({n})" in text and "<summary>Hint 1</summary>" in text
    assert f'ctrlab.lessons.start("{lesson.name}")' in text and "lab.gate(" in text
    assert "lab.finish()" in nb.cells[-1].source


def thrown_away(nb) -> list[str]:
    """Exercises whose answer, where it has a name, no code cell after its check uses."""
    found, code = [], [c for c in nb.cells if c.cell_type == "code"]
    for n, source in notebook.solutions(nb).items():
        if not source.startswith("%%kernel"):
            name = re.search(r"^(?:def|class|%%cpp) (\w+)", source, re.M)[1]
            after = next(i for i, c in enumerate(code) if f"check-{n}" in notebook.tags(c)) + 1
            if not any(re.search(rf"\b{name}\b(?! *=[^=])", c.source) for c in code[after:]):
                found.append(f"exercise {n}: {name}")
    return found


@each(SOLVED)
def test_the_learners_answers_are_used(path):
    assert thrown_away(notebook.read(path)) == []


@pytest.mark.parametrize("later, found", [("f(1)", []), ("g(f)", []), ("g(1)", ["exercise 1: f"]), ("f = 1", ["exercise 1: f"])])
def test_an_answer_that_is_thrown_away_is_found(later, found):
    sources = [("def f(x):\n    return x", "exercise-1"), ("lab.check(1, f)", "check-1"), (later, "later")]
    cells = [v4.new_code_cell(source, metadata={"tags": [tag]}) for source, tag in sources]
    assert thrown_away(v4.new_notebook(cells=cells)) == found


@each(SOLVED)
def test_instructor_notes(path):
    notes = path.with_name("notes.md")
    assert notes.is_file(), f"write {notes}"
    text = notes.read_text()
    quiz = any("lab.quiz()" in cell.source for cell in notebook.read(path).cells)
    parts = {heading: text.partition(f"\n{heading}\n")[2].partition("\n## ")[0] for heading in NOTES + MORE_NOTES * quiz}
    assert {heading for heading, part in parts.items() if len(part.split()) < (5 if heading in MORE_NOTES else 10)} == set()
    questions = re.findall(r"^\* .*(?:\n  .*)*", parts["## Ask"], re.M)
    assert questions and all(re.search(r"\?\*{0,2}\s+\S", question) for question in questions), "each question has its answer"


@each(SOLVED)
def test_compared_outputs_are_there(path):
    kept = [c for c in cells(path, "code") if notebook.KEEP_OUTPUT in notebook.tags(c)]
    assert kept and all(c["outputs"] for c in kept)
