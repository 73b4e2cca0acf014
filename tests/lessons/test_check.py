"""The judge itself: what it takes for right, what for wrong, and what it says."""

import signal
import sys
import time
import tracemalloc
from collections import deque

import numpy as np
import pytest
import tensorflow as tf
from wrong_answers import named

from ctrlab.errors import UnknownName
from ctrlab.lessons import check, interpreter
from ctrlab.lessons.check import CheckFailed


def require(received, expected):
    check.require_close(received, np.asarray(expected, np.float32), case="a test", next_step="think")


def test_close_takes_the_same_and_what_rounds():
    require(tf.constant([[1.0, 2.0]]), [[1.0, 2.0]])
    require(np.float32([1.0, 2.0 + 1e-6]), [1.0, 2.0])
    require(np.zeros((0, 3), np.float32), np.zeros((0, 3)))
    require(np.zeros(3, np.float32), np.zeros(3))


@pytest.mark.parametrize(
    "received",
    [
        np.float32([[1.0, 2.0]]),
        np.float64([1.0, 2.0]),
        np.float16([1.0, 2.0]),
        np.float32([1.0, 2.001]),
        np.float32([1.0, np.nan]),
        np.float32([1.0, np.inf]),
        np.float32([1.0]),
        None,
        "a tensor",
        tf.ragged.constant([[1.0], [2.0, 3.0]]),
    ],
    ids=["shape", "dtype", "half", "low precision", "nan", "inf", "short", "none", "text", "ragged"],
)
def test_close_refuses(received):
    with pytest.raises(CheckFailed):
        require(received, [1.0, 2.0])


def test_a_failure_says_what_is_wrong_and_at_the_second_time_the_next_step():
    with pytest.raises(CheckFailed) as failure:
        require(np.float32([[1, 2, 3], [4, 5, 7]]), [[1, 2, 3], [4, 5, 6]])
    found = failure.value
    assert (found.expected, found.received, found.index, found.next_step) == (6.0, 7.0, "row 1, column 2", "think")
    assert str(found).startswith("1 of 6 values differ; relative error 0.1, allowed 1e-05") and "expected 6.0" in str(found)
    assert check.FIRST_TRY in str(found) and "think" not in str(found)
    found.tell()
    assert "try      think" in str(found) and check.FIRST_TRY not in str(found)
    assert found._render_traceback_() == [f"CheckFailed: {found}"]


def test_call_gives_the_answer_and_turns_an_exception_into_a_wrong_one():
    assert check.call(lambda a, b: a + b, 1, 2, case="numbers") == 3
    with pytest.raises(CheckFailed, match="ZeroDivisionError") as failure:
        check.call(lambda a: a / 0, 1, case="a number")
    with pytest.raises(CheckFailed, match="SystemExit: 3"):
        check.call(lambda a: sys.exit(a), 3, case="a number")
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_call_lets_the_stub_through():
    def stub():
        raise NotImplementedError("Exercise 1: write this, then run its check")

    with pytest.raises(NotImplementedError):
        check.call(stub, case="nothing")


def test_call_sees_a_changed_input():
    def spoil(array, variable):
        variable.assign_add([1.0])
        return array

    def spoil_array(array, variable):
        array[0] = 9

    for answer in (spoil, spoil_array):
        with pytest.raises(CheckFailed, match="leaves its inputs"):
            check.call(answer, np.zeros(3), tf.Variable([1.0]), case="a test")


def test_a_nan_that_stays_is_no_change():
    assert check.call(lambda x, y: 3, float("nan"), np.array([1.0, np.nan]), case="a test") == 3
    with pytest.raises(CheckFailed, match="leaves its inputs") as failure:
        check.call(lambda x: x.fill(2), np.array([np.nan, 2, 1]), case="a test")
    assert failure.value.index == (0,)


@pytest.mark.parametrize("spoil", [dict.clear, lambda d: d.update(b=1), lambda d: d["a"].pop(), lambda d: d["a"].append(3)])
def test_call_sees_a_changed_list_or_dictionary(spoil):
    with pytest.raises(CheckFailed, match="leaves its inputs"):
        check.call(spoil, {"a": [1, np.zeros(2)]}, case="a test")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s, d: s.add(4),
        lambda s, d: s.discard(1),
        lambda s, d: d.popleft(),
        lambda s, d: d.rotate(),
        lambda s, d: d[1].fill(1),
    ],
)
def test_call_sees_a_changed_set_or_deque(spoil):
    given = {1, 2}, deque([3, np.zeros(2), 5])
    assert check.call(lambda s, d: len(s) + len(d), *given, case="a test") == 5
    with pytest.raises(CheckFailed, match="leaves its inputs"):
        check.call(spoil, *given, case="a test")
    with pytest.raises(CheckFailed, match="leaves its inputs"):
        check.call(lambda nest: nest["a"][0].clear(), {"a": (given[1], given[0])}, case="a test")


@pytest.mark.parametrize("spoil", [lambda d: d.update(a=2), lambda d: d.update(b="w"), lambda d: d.update(c=(1, b"y"))])
def test_call_sees_a_changed_value(spoil):
    with pytest.raises(CheckFailed, match="leaves its inputs"):
        check.call(spoil, {"a": 1, "b": "v", "c": (1, b"x")}, case="a test")


def test_only_the_stub_s_own_line_is_no_answer_yet(runs, monkeypatch):
    def finished(*_):
        raise NotImplementedError("Cannot convert a symbolic tensor to a NumPy array.")

    def stub(*_):
        raise NotImplementedError("Exercise 7: write this, then run its check")

    def judge():
        for answer in (stub, lambda: tf.data.Dataset.range(3).map(stub)):
            with pytest.raises(check.Unanswered, match=r"^Exercise 7: write this, then run its check$"):
                runs(answer)
        with pytest.raises(CheckFailed, match=r"(?s)answers every valid input.*received NotImplementedError: Cannot convert"):
            runs(finished)

    judge()
    monkeypatch.setattr(check, "checks_of", lambda lesson: {1: lambda answer, rng: answer()})
    judge()


def test_a_result_of_nothing_is_named():
    assert "received None" in str(CheckFailed("A rule.", expected=1, received=None, next_step="think"))


@pytest.mark.parametrize("exercise", [9, "1", 1.0, None, len])
def test_unknown_exercise_names_the_known(exercise):
    with pytest.raises(UnknownName, match=r"^Unknown exercise .*; known are 1, 2\..*$"):
        check.run("02_ops/01_indicator_column", exercise, lambda: None)


def catches_what_it_may():
    while True:
        try:
            for _ in iter(int, 1):
                pass
        except Exception:
            continue


def catches_all_in_its_loop():
    while True:
        try:
            for _ in iter(int, 1):
                pass
        except:  # noqa: E722
            pass


def catches_all_in_its_sleep():
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue


def goes_on_in_the_end():
    while True:
        try:
            time.sleep(1)
        finally:
            continue  # noqa: B012


@pytest.fixture
def runs(monkeypatch):
    """runs(answer, seconds) judges any answer that ends in time as right."""
    monkeypatch.setattr(check, "checks_of", lambda lesson: {1: lambda answer, rng: check.call(answer, case="a test")})

    def run(answer, seconds=0.1):
        monkeypatch.setattr(check, "SECONDS", seconds)
        check.run("a lesson", 1, answer)

    return run


@pytest.mark.parametrize(
    "endless", [catches_what_it_may, catches_all_in_its_loop, catches_all_in_its_sleep, goes_on_in_the_end], ids=named
)
def test_an_answer_that_comes_to_no_end_is_refused(runs, endless):
    alarm, tracing, left = signal.getsignal(signal.SIGALRM), sys.gettrace(), signal.setitimer(signal.ITIMER_REAL, 100, 2)
    try:
        with pytest.raises(CheckFailed, match="comes to an end"):
            runs(endless)
        after = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
    assert signal.getsignal(signal.SIGALRM) == alarm and sys.gettrace() == tracing
    assert 90 < after[0] < 100 and after[1] == 2  # another's alarm goes on


def test_what_the_judge_cleans_up_is_not_ended_halfway(runs):
    def endless():
        for _ in iter(int, 1):
            pass

    with pytest.raises(CheckFailed, match="comes to an end"):
        runs(lambda: interpreter.peak_of(endless))
    assert not tracemalloc.is_tracing()


def test_one_op_that_takes_the_time_is_told_of(runs, monkeypatch, capsys):
    monkeypatch.setattr(check, "PATIENCE", 0.1)
    numbers = tf.data.Dataset.range(1).repeat(30_000)
    with pytest.raises(CheckFailed, match="comes to an end"):
        runs(lambda: numbers.reduce(tf.constant(0, tf.int64), lambda total, n: total + n))
    assert capsys.readouterr().out.endswith("restart the kernel (Kernel, Restart Kernel).\n")
    runs(lambda: None)
    time.sleep(0.3)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "nothing, kind", [(None, "None"), (object(), "of type object"), ([None], "of type list")], ids=["none", "object", "list"]
)
def test_what_holds_no_numbers_is_no_tensor(nothing, kind):
    with pytest.raises(CheckFailed, match=f"The result is {kind}; expected one dense tensor; here"):
        require(nothing, [1.0, 2.0])
    with pytest.raises(CheckFailed, match=f"The result is {kind}; expected one number; here"):
        require(nothing, 1.0)


def test_a_few_numbers_of_an_input_are_shown_and_no_more():
    ragged = tf.ragged.constant([[1, 2], []])
    assert check.shown((np.float32([0.1, 2]), 3, ragged, [("a", 1)])) == "[0.100000, 2.0]; 3; [[1, 2], []]; [('a', 1)]"
    assert check.shown((np.zeros(check.FEW),)) and check.shown((np.zeros(check.FEW + 1),)) is None
    assert check.shown((object(), 1)) is None


def test_the_first_next_step_fits_what_was_refused():
    refused = CheckFailed("It is right.", expected=1, received=2, next_step="think")
    assert "choose a small input" in str(refused) and "input  " not in str(refused)
    refused.input = "[1, 2]"
    assert "work this case out by hand" in str(refused) and "  input    [1, 2]\n" in str(refused)
    assert "find the line that spends it" in str(CheckFailed("Budget: no loop.", expected=0, received=1, next_step="think"))


def test_an_error_is_told_without_what_tensorflow_adds():
    @tf.function
    def in_graph(x):
        return x.numpy()

    with pytest.raises(CheckFailed, match=r"received AttributeError: 'SymbolicTensor' object has no attribute 'numpy'"):
        check.call(in_graph, tf.zeros(2), case="a test")
    with pytest.raises(CheckFailed, match=r"received InvalidArgumentError: [^{]*\n"):
        check.call(tf.scatter_nd, [[-1]], [1.0], [2], case="a test")
