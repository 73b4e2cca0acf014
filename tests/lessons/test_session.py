"""The Lab that a notebook talks to."""

import contextlib
import errno
import re

import numpy as np
import pytest

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.lessons import check, course, notebook, places, progress, session
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.progress import NOT_JUDGED, Store
from ctrlab.lessons.session import Lab
from ctrlab.profiling.timing import Comparison

LESSON = "02_ops/01_indicator_column"
CLAIMS = {"it runs": True}


@pytest.fixture
def lab(work, monkeypatch):
    def is_three(answer, rng):
        if answer() != 3:
            raise CheckFailed("three", expected=3, received=answer(), next_step="count")

    monkeypatch.setattr(check, "checks_of", lambda lesson: {1: is_three, 2: is_three})
    return Lab(LESSON, machine="a CPU")


def comparison(ratio, pairs=9):
    return Comparison.of_samples({"stock": [0.001 * ratio] * pairs, "fused": [0.001] * pairs}, baseline="stock")


def pass_all(lab):
    lab.check(1, lambda: 3)
    lab.check(2, lambda: 3)


def finished(lab, monkeypatch, **claims):
    """Every exercise passed, and the verdict saved."""
    monkeypatch.setattr(session.course, "after", lambda name: None)
    pass_all(lab)
    verdict = lab.gate(claims=claims or CLAIMS)
    lab.finish()
    return verdict


def test_check_is_one_constant_line_and_is_kept(lab, capsys):
    lab.check(1, lambda: 3)
    assert capsys.readouterr().out == "Exercise 1 passed.\n"
    assert Store().load(LESSON).passed == [1]
    with pytest.raises(CheckFailed):
        lab.check(2, lambda: 4)
    assert Store().load(LESSON).passed == [1]
    with pytest.raises(UnknownName):
        lab.check(3, lambda: 3)


def test_prediction_against_outcome(lab, capsys):
    lab.predict(speedup=10)
    assert Store().load(LESSON).predictions == {"speedup": 10.0}
    lab.outcome(speedup=comparison(2).ratio("fused"), bytes=7.0, if_less="Look at the profile.")
    out = capsys.readouterr().out
    assert "speedup: you said 10, measured 2, 1/5 of it.\nIf you got less: Look at the profile." in out
    assert "bytes: measured 7; nothing was predicted (lab.predict(bytes=...))." in out


def test_a_finished_lesson_is_not_passed_any_more_after_a_wrong_answer(lab, monkeypatch):
    finished(lab, monkeypatch)
    assert Store().load(LESSON).state == "passed"
    with pytest.raises(CheckFailed):
        lab.check(1, lambda: 4)
    assert Store().load(LESSON).state == "started"


def test_the_first_refusal_of_an_exercise_gives_no_step_away_and_the_second_does(lab):
    said = []
    for exercise in (1, 1, 2):
        with pytest.raises(CheckFailed) as refused:
            lab.check(exercise, lambda: 4)
        said.append((refused.value.next_step in str(refused.value), check.FIRST_TRY in str(refused.value)))
    assert said == [(False, True), (True, False), (False, True)]


def test_an_outcome_may_be_simulated(lab, capsys):
    lab.predict(workers=8)
    lab.outcome(workers=37, how="simulated")
    assert "workers: you said 8, simulated 37" in capsys.readouterr().out


def test_a_stub_that_is_explored_is_one_line(lab):
    def stub(n):
        raise NotImplementedError("Exercise 1: write this, then run its check")

    def later(n):
        raise NotImplementedError("of a library")

    with pytest.raises(check.Unanswered, match=r"^Exercise 1: write this") as asked:
        lab.explore(lambda n: {"a": stub(n)}, x="n", y="a", n=[1, 2])
    assert asked.value.__suppress_context__ and asked.value._render_traceback_() == [str(asked.value)]
    with pytest.raises(NotImplementedError, match="of a library"):
        lab.explore(later, x="n", y="a", n=[1, 2])


@pytest.mark.parametrize("guess", [0, -1, "fast", None, 10**400, float("nan"), float("inf"), True])
def test_a_prediction_is_a_number(lab, guess):
    with pytest.raises(CtrlabError, match="above 0"):
        lab.predict(speedup=guess)


def test_a_share_may_be_nothing(lab, capsys):
    lab.predict(lost_percent=0)
    lab.outcome(lost_percent=20.0, if_less="No.", if_more="Two workers have three groups.")
    said = "lost: you said 0 %, measured 20 %, 20 points more.\nIf you got more: Two workers have three groups."
    assert said in capsys.readouterr().out
    for guess in (-1, False):
        with pytest.raises(CtrlabError, match="percents may be 0"):
            lab.predict(lost_percent=guess)


def test_dots_are_no_prediction(lab):
    with pytest.raises(check.Unanswered, match=r"a number in place of the dots: speedup=\.\.\.") as asked:
        lab.predict(speedup=...)
    assert asked.value._render_traceback_() == [str(asked.value)] and Store().load(LESSON).predictions == {}


def test_a_wrong_answer_takes_back_the_pass_of_an_earlier_one(lab):
    pass_all(lab)
    with pytest.raises(CheckFailed):
        lab.check(2, lambda: 4)
    assert Store().load(LESSON).passed == [1]
    with pytest.raises(CheckFailed, match="exercise 2"):
        lab.gate()
    lab.check(2, lambda: 3)
    assert lab.gate(claims=CLAIMS).passed
    with pytest.raises(CheckFailed):
        lab.check(1, lambda: 4)
    with pytest.raises(CtrlabError, match="no verdict to save"):
        lab.finish()


def test_a_stub_is_one_line_and_takes_back_a_pass_too(lab):
    def stub():
        raise NotImplementedError("Exercise 1: write this, then run its check")

    pass_all(lab)
    with pytest.raises(check.Unanswered) as waits:
        lab.check(1, stub)
    assert waits.value._render_traceback_() == ["Exercise 1: write this, then run its check"]
    assert Store().load(LESSON).passed == [2]


@pytest.mark.parametrize("profile, shown, passed", [("tiny", None, True), ("lesson", False, False)])
def test_what_tiny_can_not_show_is_not_judged_there(lab, monkeypatch, capsys, profile, shown, passed):
    monkeypatch.setenv("CTRLAB_PROFILE", profile)
    lab = Lab(LESSON, machine="a CPU")
    pass_all(lab)
    verdict = lab.gate(claims={"it runs": True}, claims_beyond_tiny={"it learns": False})
    assert verdict.claims == {"it runs": True, "it learns": shown} and verdict.passed == passed
    out = capsys.readouterr().out
    assert (f"it learns: {NOT_JUDGED}" in out) == (shown is None) and "shown      it learns" not in out.replace(
        "NOT shown  it", ""
    )
    monkeypatch.setattr(session.course, "after", lambda name: None)
    lab.finish()
    assert Store().load(LESSON).verdict == verdict


def test_gate_wants_every_exercise(lab):
    lab.check(1, lambda: 3)
    with pytest.raises(CheckFailed, match="exercise 2"):
        lab.gate()


@pytest.mark.parametrize(
    "other",
    [[0.5, 0.4001], [0.5], [0.5, np.nan], []],
    ids=["differs", "shorter", "nan", "none"],
)
def test_gate_refuses_other_losses(lab, other):
    pass_all(lab)
    with pytest.raises(CheckFailed):
        lab.gate(losses={"none": [0.5, 0.4], "indicator": other})


def speeds_asked() -> list:
    """(lesson, variant, at least) of every gate that judges a speed, read from the solved notebooks."""
    found = []
    for entry in course.lessons():
        code = "\n".join(c.source for c in notebook.read(places.lesson_path(entry.name)).cells)
        for gate in re.findall(r"lab\.gate\(.*?\n?\)$", code, re.S | re.M):
            if variant := re.search(r"\bvariant=\"(.*?)\"", gate):
                at_least = re.search(r"\bat_least=([\d.]+)", gate)
                found.append(pytest.param(entry.name, variant[1], float(at_least[1]) if at_least else 1.0, id=entry.name))
    return found


@pytest.mark.parametrize("lesson, variant, at_least", speeds_asked())
def test_a_planted_slower_measurement_passes_no_gate(work, monkeypatch, lesson, variant, at_least):
    monkeypatch.setenv("CTRLAB_PROFILE", "lesson")
    monkeypatch.setattr(check, "checks_of", lambda lesson: {})

    def measured(ratio):
        return Comparison.of_samples({"baseline": [0.001 * ratio] * 9, variant: [0.001] * 9}, baseline="baseline")

    lab = Lab(lesson, machine="a CPU")
    for ratio, passed in ((0.9 * at_least, False), (0.5, False), (1.1 * at_least, True)):
        verdict = lab.gate(comparison=measured(ratio), variant=variant, at_least=at_least)
        assert verdict.passed == passed and str(verdict) == ("passed" if passed else "not passed")
        lab.finish()
        assert Store().load(lesson).state == str(verdict)


@pytest.mark.parametrize("profile, ratio, verdict", [("lesson", 8, "yes"), ("lesson", 1, "no"), ("tiny", 1, NOT_JUDGED)])
def test_gate_judges_speed_but_does_not_raise(lab, monkeypatch, profile, ratio, verdict):
    monkeypatch.setenv("CTRLAB_PROFILE", profile)
    lab = Lab(LESSON, machine="a CPU")
    pass_all(lab)
    curves = {"none": [0.5, 0.4], "indicator": [0.5, 0.4 + 1e-9]}
    found = lab.gate(losses=curves, comparison=comparison(ratio), variant="fused", at_least=2, claims={"it works": True})
    assert found.speed.verdict == verdict and found.passed == (verdict != "no")
    assert 0 < found.difference < 1e-8 and found.profile == profile


def test_too_few_pairs_are_inconclusive(lab, monkeypatch):
    monkeypatch.setenv("CTRLAB_PROFILE", "lesson")
    lab = Lab(LESSON, machine="a CPU")
    pass_all(lab)
    assert str(lab.gate(comparison=comparison(8, pairs=3), variant="fused", at_least=2)) == "inconclusive"


def test_finish_saves_the_verdict_and_names_the_next(lab, monkeypatch, capsys):
    with pytest.raises(CtrlabError, match="gate"):
        lab.finish()
    verdict = finished(lab, monkeypatch)
    assert Store().load(LESSON).verdict == verdict
    assert "last lesson" in capsys.readouterr().out


def test_measure_uses_the_profiles_repetitions_and_prints_ratios(lab, capsys):
    def work(n):
        return np.ones(n).sum()

    found = lab.measure({"a": work, "b": work}, lambda i: (10,), baseline="a", min_seconds=0.0)
    assert len(found["a"].samples) == lab.profile.repetitions == 3
    out = capsys.readouterr().out
    assert "baseline" in out and "(75%)" in out


def test_use_solution_runs_it_in_the_notebook_and_is_noted(lab, monkeypatch):
    import IPython

    ran = []

    class Shell:
        def run_cell(self, text):
            ran.append(text)
            return self

        def raise_error(self):
            pass

    monkeypatch.setattr(IPython, "get_ipython", Shell)
    lab.use_solution(1)
    assert "BEGIN SOLUTION" in ran[0] and Store().load(LESSON).solutions == [1]
    pass_all(lab)
    assert lab.gate(claims=CLAIMS).solutions == (1,)
    with pytest.raises(UnknownName):
        lab.use_solution(9)


@pytest.mark.parametrize(
    "fails",
    [
        {"losses": {"none": [0.5], "fast": [0.6]}},
        {"claims": {"it runs": False}},
        {"claims": {"it runs": float("nan")}},
        {},
    ],
    ids=["losses", "claim", "no claim", "nothing"],
)
def test_a_gate_that_fails_takes_the_earlier_verdict_back(lab, monkeypatch, fails):
    finished(lab, monkeypatch)
    with contextlib.suppress(CheckFailed, CtrlabError):
        lab.gate(**fails)
    assert Store().load(LESSON).state == "started"


def test_a_gate_that_passes_again_leaves_it(lab, monkeypatch):
    finished(lab, monkeypatch)
    lab.gate(claims=CLAIMS)
    assert Store().load(LESSON).state == "passed"


@pytest.mark.parametrize("holds", [float("nan"), "False", 1, 0.0, np.ones(2, bool), np.float64("nan"), [True]])
def test_a_claim_is_true_or_false(lab, holds):
    pass_all(lab)
    for claims in ("claims", "claims_beyond_tiny"):
        with pytest.raises(CtrlabError, match="'it runs' came to"):
            lab.gate(**{claims: {"it runs": holds}})


@pytest.mark.parametrize("holds, said", [(np.True_, True), (np.bool_(False), False), (None, None), (np.array(True), True)])
def test_a_claim_of_numpy_is_one_too(lab, holds, said):
    pass_all(lab)
    assert lab.gate(claims={"it runs": holds}).claims == {"it runs": said}


def test_a_gate_judges_something(lab):
    pass_all(lab)
    for nothing in ({}, {"claims": {}, "losses": {}}):
        with pytest.raises(CtrlabError, match="nothing was given"):
            lab.gate(**nothing)


def test_an_answer_that_is_written_anew_has_to_pass_again(lab, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.user_ns["lab"] = lab

        def run(cell):
            shell.run_cell(cell, silent=True).raise_error()

        run("def three():\n    return 3")
        run("lab.check(1, three); lab.check(2, three)")
        run("def three():\n    return 3")  # the same cell again
        assert lab.gate(claims=CLAIMS).passed
        run("def three():\n    return 4")
        with pytest.raises(CheckFailed, match=r"(?s)exercise 1 passed.*three was written anew since"):
            lab.gate(claims=CLAIMS)
        run("def three():\n    return 2 + 1")
        run("lab.check(1, three); lab.check(2, three)")
        assert lab.gate(claims=CLAIMS).passed
    finally:
        InteractiveShell.clear_instance()


def test_two_notebooks_of_a_lesson_keep_what_the_other_wrote(lab):
    other = Lab(LESSON, machine="a CPU")
    lab.predict(speedup=2)
    other.predict(rows=3)
    other.check(2, lambda: 3)
    lab.check(1, lambda: 3)
    with pytest.raises(CheckFailed):
        other.check(2, lambda: 4)
    found = Store().load(LESSON)
    assert found.predictions == {"speedup": 2.0, "rows": 3.0} and found.passed == [1]


def test_a_solution_that_was_taken_stays_noted_when_the_kernel_starts_again(lab, monkeypatch):
    Store().change(LESSON, lambda record: record.add_solution(2))
    again = Lab(LESSON, machine="a CPU")
    assert finished(again, monkeypatch).solutions == ()  # an answer of their own, this time
    assert Store().load(LESSON).solutions == [2]


@pytest.fixture
def unwritable(lab, work, monkeypatch):
    """Makes writes fail as if the disk were full."""

    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(progress, "write_atomically", full)


NOT_KEPT = "could not be saved: [Errno 28] No space left on device\n"


def test_a_full_disk_hides_no_judgement(lab, unwritable, monkeypatch, capsys):
    with pytest.raises(CheckFailed, match="three"):
        lab.check(1, lambda: 4)
    assert capsys.readouterr().out.endswith(NOT_KEPT)
    lab.check(1, lambda: 3)
    assert re.match(f"Exercise 1 passed\\.\n.*{re.escape(NOT_KEPT)}$", capsys.readouterr().out)
    lab.predict(speedup=2)
    lab.outcome(speedup=4)
    assert "you said 2" in capsys.readouterr().out
    assert finished(lab, monkeypatch).passed
    assert "Not saved: passed." in capsys.readouterr().out


def test_a_damaged_file_hides_no_judgement(lab, capsys):
    Store().save(Store().load(LESSON))
    Store().path(LESSON).write_text("{")
    with pytest.raises(CheckFailed, match="three"):
        lab.check(1, lambda: 4)
    assert "Delete it to start again." in capsys.readouterr().out and Store().path(LESSON).read_text() == "{"
