"""What the exercises of all lessons tell a learner: limits beforehand, then what is wrong, and no hint at the first refusal."""

import ast
import re

import pytest
from solved import solved
from wrong_answers import usual

from ctrlab.lessons import build, check, course, effort, notebook, places
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.limits import limits_of

EXERCISES = [(lesson.name, n, asked) for lesson in course.lessons() for n, asked in check.checks_of(lesson.name).items()]
LIMITED = [(name, n) for name, n, asked in EXERCISES if limits_of(asked)]
DECLARED = [(name, n) for name, n, asked in EXERCISES if isinstance(asked, Exercise) and not asked.kernel]
WORDS_OF_A_HINT = 6


def cells(name):
    return notebook.read(places.lesson_path(name)).cells


def exercise_text(name, n):
    return next(c.source for c in cells(name) if c.cell_type == "markdown" and re.search(rf"^## Exercise {n}\b", c.source, re.M))


def hints(name, n):
    """The texts of the exercise's hints."""
    cell = next(c.source for c in cells(name) if f"<!-- solution {n} -->" in c.source)
    return re.findall(r"<summary>Hint \d+</summary>(.*?)</details>", cell, re.S)


def said_in_checks(name):
    """The texts in the lesson's checks.py that a refusal may have: all but docstrings."""
    tree = ast.parse((places.lesson_path(name).parent / "checks.py").read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs]


def words(text):
    return re.findall(r"[\w.]+", text.lower())


def runs(text):
    """All runs of some words."""
    found = words(text)
    return {tuple(found[i : i + WORDS_OF_A_HINT]) for i in range(len(found) - WORDS_OF_A_HINT + 1)}


def refusals(name, n):
    right = solved(name, n)
    for what, answer in usual(right).items():
        try:
            check.run(name, n, answer, 1)
        except CheckFailed as refused:
            yield what, refused


@pytest.mark.parametrize("name, n", LIMITED)
def test_the_text_names_each_limit_and_its_number(name, n):
    said = " ".join(exercise_text(name, n).split())
    for limit in limits_of(check.checks_of(name)[n]):
        assert limit[1:] in said, "run `python -m ctrlab.lessons.build`"


@pytest.mark.parametrize("name, n, asked", EXERCISES, ids=[f"{name}-{n}" for name, n, _ in EXERCISES])
def test_every_limit_of_a_declared_exercise_can_be_told(name, n, asked):
    for limit in getattr(asked, "limits", ()):
        cost = any(base.__module__ == "ctrlab.lessons.limits" for base in type(limit).__mro__)
        assert not cost or limit.says()


@pytest.mark.parametrize("name, n", DECLARED)
def test_a_first_refusal_says_what_is_wrong_and_gives_no_hint_away(name, n):
    text = exercise_text(name, n) + " ".join(c.source for c in cells(name) if f"exercise-{n}" in notebook.tags(c))
    secret = runs(" ".join(hints(name, n))) - runs(re.sub(r"### BEGIN SOLUTION.*### END SOLUTION", "", text, flags=re.S))
    lines = [
        line.strip() for line in notebook.region_text(notebook.solutions(notebook.read(places.lesson_path(name)))[n]).splitlines()
    ]
    for what, refused in refusals(name, n):
        first = str(refused)
        assert not first.startswith(refused.rule), what
        assert check.FIRST_TRY in first or refused.next_step in first
        assert not runs(first) & secret, (what, runs(first) & secret)
        assert not [line for line in lines if len(line) > 20 and line in first], what
        refused.tell()
        assert refused.next_step in str(refused)


@pytest.mark.parametrize("name, n", [(name, n) for name, n, _ in EXERCISES])
def test_no_refusal_says_hint_2_to_who_has_not_opened_hint_1(name, n):
    first, *later = hints(name, n)
    text = " ".join(c.source.partition("<details>")[0] for c in cells(name)) + exercise_text(name, n) + first
    secret = {run for hint in later for run in runs(hint)} - runs(
        re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "", text, flags=re.S)
    )
    for said in said_in_checks(name):
        assert not runs(said) & secret, said


def test_limits_are_no_prose_that_counts_against_the_length_of_a_lesson():
    name, _ = LIMITED[0]
    nb = notebook.read(places.lesson_path(name))
    before = effort.words(nb)
    for cell in nb.cells:
        cell.source = cell.source.partition(f"\n\n{effort.LIMITS}")[0] if cell.cell_type == "markdown" else cell.source
    assert effort.words(nb) == before
    assert any(effort.LIMITS in c.source for c in build._with_limits(name, nb).cells)
