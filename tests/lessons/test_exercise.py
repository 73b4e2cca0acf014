"""The engine that judges declared exercises, against right answers and every kind of wrong one."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from wrong_answers import Replay, usual

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Each, Exercise, Number, Ragged, Same, tensors
from ctrlab.lessons.limits import NoAllocation, NoLoop, Peak, Traced
from ctrlab.ops import kernel_swap

ROWS, DIM = 256, 8


def reads(rng):
    for _ in range(3):
        ids = rng.integers(0, 9, int(rng.integers(5, 20)))
        yield "random ids", ids, rng.standard_normal((len(ids), 3)).astype(np.float32)
    yield "no ids", np.zeros(0, np.int64), np.zeros((0, 3), np.float32)


def reference(ids, rows):
    unique, place = np.unique(ids, return_inverse=True)
    sums = np.zeros((len(unique), rows.shape[1]))
    np.add.at(sums, place, rows)
    return unique, sums


MERGE = Exercise(
    asks="merge(ids, rows): int64 [n], float32 [n, D] -> ids int64 [u], rows float32 [u, D]",
    cases=reads,
    reference=reference,
    compare={"ids": Close("sort first", dtype=np.int64), "rows": Close("add up equal ids")},
    given=tensors,
    limits=[
        Traced(
            "nothing larger than the rows",
            largest_elements=ROWS * DIM,
            on=lambda rng: (tf.constant(rng.integers(0, 99, ROWS)), tf.zeros((ROWS, DIM))),
            of=f"{ROWS} rows of {DIM}",
            next_step="a segment sum",
        )
    ],
)


def merge(ids, rows):
    unique, place = tf.unique(ids)
    order = tf.argsort(unique)
    return tf.gather(unique, order), tf.gather(tf.math.unsorted_segment_sum(rows, place, tf.size(unique)), order)


def one_hot(ids, rows):
    unique, place = tf.unique(tf.sort(ids))
    place = tf.argmax(tf.cast(ids[:, None] == unique, tf.int64), 1) if len(ids) else place
    return unique, tf.matmul(tf.one_hot(place, tf.size(unique), axis=0), rows)


def changed(change):
    return lambda *question: tuple(change(part) for part in merge(*question))


class RightOnTheSeedOnly:
    """It has heard the answers to one generator's questions, and gives them in their order."""

    def __init__(self):
        self.heard = []
        MERGE(self._learn, np.random.default_rng(0))

    @tf.autograph.experimental.do_not_convert
    def _learn(self, *question):
        found = merge(*question)
        if not any(map(tf.is_symbolic_tensor, found)):
            self.heard.append(found)
        return found

    def __call__(self, *question):
        return self.heard.pop(0) if self.heard else merge(*question)


WRONG = {
    "a no-op": (lambda ids, rows: (ids, rows), "`(ids|rows)`"),
    "nothing": (lambda ids, rows: None, "returns ids, rows"),
    "one part": (lambda ids, rows: merge(ids, rows)[1], "returns ids, rows"),
    "a constant": (changed(tf.zeros_like), "`ids`"),
    "off by one": (lambda ids, rows: (merge(ids, rows)[0], tf.roll(merge(ids, rows)[1], 1, 0)), "`rows`"),
    "low precision": (
        lambda ids, rows: (merge(ids, rows)[0], tf.cast(tf.cast(merge(ids, rows)[1], tf.half), tf.float32)),
        "`rows`",
    ),
    "another dtype": (lambda ids, rows: (tf.cast(merge(ids, rows)[0], tf.int32), merge(ids, rows)[1]), "dtype int32"),
    "an exception": (lambda ids, rows: 1 / 0, "ZeroDivisionError"),
    "a replay": (Replay(merge), None),
    "over budget": (one_hot, "Budget: nothing larger"),
    "NumPy, which is no graph": (lambda ids, rows: reference(ids.numpy(), rows.numpy()), None),
}


@pytest.mark.parametrize("seed", range(3))
def test_a_right_answer_passes(seed):
    MERGE(merge, np.random.default_rng(seed))


@pytest.mark.parametrize("answer, says", WRONG.values(), ids=WRONG.keys())
def test_wrong_answers_are_refused_with_rule_expected_received_and_next_step(answer, says):
    with pytest.raises(CheckFailed, match=says) as refused:
        MERGE(answer, np.random.default_rng(1))
    found = refused.value
    assert found.rule.endswith(".") and found.next_step and found.expected is not None and found.received is not None


def test_what_is_right_on_one_seed_only_is_refused():
    MERGE(RightOnTheSeedOnly(), np.random.default_rng(0))
    with pytest.raises(CheckFailed):
        MERGE(RightOnTheSeedOnly(), np.random.default_rng(1))


def test_the_usual_wrong_answers_are_wrong_and_an_exercise_that_takes_all_is_seen():
    takes_all = dataclasses.replace(MERGE, compare=lambda *_: None, limits=())
    for what, answer in usual(merge).items():
        if what != "an input changed":  # these are tensors, which nobody can change
            with pytest.raises(CheckFailed):
                MERGE(answer, np.random.default_rng(1))
            takes_all(answer, np.random.default_rng(1))
            assert getattr(answer, "altered", True)


def test_an_answer_s_place_is_named():
    def odd(ids, rows):
        ids, sums = merge(ids, rows)
        return ids, tf.tensor_scatter_nd_add(sums, [[1, 2]], [1.0]) if len(ids) > 1 else sums

    with pytest.raises(CheckFailed, match=r"here random ids, `rows`") as refused:
        MERGE(odd, np.random.default_rng(1))
    assert refused.value.index == "row 1, column 2"


def test_a_mistake_is_named_only_if_its_result_is_what_came():
    def total(ids, rows):
        return reference(ids, 2 * rows)

    judged = dataclasses.replace(MERGE, mistakes={"Each row is added twice": total, "The ids alone are right": lambda *_: (0, 0)})
    for factor, named in ((2, True), (3, False), (2.001, False)):
        with pytest.raises(CheckFailed) as refused:
            judged(lambda ids, rows: (merge(ids, rows)[0], factor * merge(ids, rows)[1]), np.random.default_rng(0))  # noqa: B023
        assert refused.value.wrong.startswith("Each row is added twice; here random ids") == named
    both = dataclasses.replace(MERGE, mistakes={"Each row is added twice": total, "The step is twice as large": total})
    with pytest.raises(CheckFailed, match=r"^\d+ of \d+ values differ"):
        both(lambda ids, rows: (merge(ids, rows)[0], 2 * merge(ids, rows)[1]), np.random.default_rng(0))


def test_a_stub_is_no_answer_yet(monkeypatch):
    def stub(*_):
        raise NotImplementedError("Exercise 1: write this, then run its check")

    monkeypatch.setattr(check, "checks_of", lambda lesson: {1: MERGE})
    with pytest.raises(check.Unanswered, match="Exercise 1"):
        check.run("any", 1, stub)
    check.run("any", 1, merge)


# In NumPy.


def numbers_of(rng):
    for _ in range(3):
        yield "some numbers", rng.integers(1, 9, int(rng.integers(3, 9)))


MANY = 20_000
TOTAL = Exercise(
    asks="total(numbers): int64 [n] -> int",
    cases=numbers_of,
    reference=lambda numbers: int(numbers.sum()),
    compare=Number("The total is the sum of all", "np.sum", whole=True, shown=lambda numbers: f"{len(numbers)} numbers"),
    limits=[
        NoLoop("numbers", many=MANY, most=200, on=lambda rng: (rng.integers(0, 9, MANY),)),
        Peak("no table", "20,000 numbers", most=9 * MANY, on=lambda rng: (rng.integers(0, 9, MANY),), next_step="np.sum"),
    ],
    afterwards=lambda rng: [("a million numbers", rng.integers(0, 9, 1_000_000))],
)


def mutating(numbers):
    total = int(numbers.sum())
    numbers[0] = 0
    return total


def spendthrift(numbers):
    return int(np.repeat(numbers[None], 2, 0)[0].sum())


@pytest.mark.parametrize(
    "answer, says",
    [
        (mutating, "leaves its inputs"),
        (lambda numbers: float(numbers.sum()), "a whole number"),
        (lambda numbers: True, "a whole number"),
        (
            lambda numbers: int(numbers.sum()) + 1,
            r"(?s)The answer is \d+, and not \d+; here some numbers\.\n +rule +The total is the sum of all\.\n.*at +\d numbers\n",
        ),
        (lambda numbers: sum(n for n in numbers.tolist()), "no loop over numbers"),
        (spendthrift, "Budget: no table"),
        (lambda numbers: int(numbers[:500_000].sum()), "a million numbers"),
    ],
    ids=["mutates", "float", "bool", "off by one", "loop", "memory", "wrong where it is large"],
)
def test_answers_in_numpy(answer, says):
    TOTAL(lambda numbers: int(numbers.sum()), np.random.default_rng(0))
    with pytest.raises(CheckFailed, match=says):
        TOTAL(answer, np.random.default_rng(0))


# Comparisons alone.


def refused(compare, received, expected, says=None):
    with pytest.raises(CheckFailed, match=says) as failure:
        compare(received, expected, "a test", (7,))
    assert failure.value.next_step
    return failure.value


def test_numbers():
    near = Number("It is a share", "think", rtol=1e-6)
    for received, expected in (
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (1, 1.0),
        (1e6, 1e6 + 0.5),
        (np.inf, np.inf),
        (np.nan, np.nan),
    ):
        near(received, expected, "a test", ())
    near(None, None, "a test", ())
    for received, expected in ((0.5, 0.6), (np.nan, 0.5), (0.5, np.nan), (1e300, np.inf), (-np.inf, np.inf), (0.0, None)):
        refused(near, received, expected, "(?s)here a test.*It is a share")
    for received in (None, True, "0.5", np.array([0.5]), tf.constant(0.5), [0.5]):
        refused(near, received, 0.5, "a number, 0.5")
    refused(Number("It is exact", "think"), np.float32(0.1), 0.1)
    Number("It is near", "think", atol=0.1)(1e9, 1e9 + 0.09, "a test", ())
    refused(Number("It is near", "think", atol=0.1), 1e9, 1e9 + 0.11)
    whole = Number("It counts", "think", whole=True)
    whole(np.int64(2**62 + 1), 2**62 + 1, "a test", ())
    refused(whole, 2**62, 2**62 + 1)
    refused(whole, 10**30, np.int64(5))
    refused(near, 10**400, 1.0)


def test_plain_values():
    same = Same("It is the setting", "think", shown=lambda n: f"n is {n}")
    same("a", "a", "a test", (7,))
    same(None, None, "a test", (7,))
    for received in (None, "b", b"a", ["a"], np.array(["a"])):
        assert refused(same, received, "a", "It is the setting").index == "n is 7"
    refused(same, [np.zeros(2)], [np.zeros(2)])
    refused(same, 0, None)
    refused(same, True, 1)


def test_lists_and_dictionaries():
    each = Each("output", Close("think"))
    each([np.float32([1])], [np.array([1.0])], "a test", ())
    each({"b": np.float32([2]), "a": np.float32([1])}, {"a": [1.0], "b": [2.0]}, "a test", ())
    refused(each, np.float32([[1]]), [[1.0]], "one output for each")
    refused(each, [], [[1.0]], "one output for each")
    refused(each, {"a": np.float32([1])}, [[1.0]], "one output for each")
    refused(each, [np.float32([1])], {"a": [1.0]}, "one output for each")
    refused(each, {"b": np.float32([1])}, {"a": [1.0]}, "one output for each")
    refused(each, [np.float32([1]), np.float32([2])], [[1.0], [3.0]], "output 1")


def test_ragged_tensors():
    ragged = Ragged("think")
    rows = [[1, 2], [], [3]]
    ragged(tf.ragged.constant(rows, tf.int64, row_splits_dtype=tf.int64), rows, "a test", ())
    ragged(tf.RaggedTensor.from_row_splits(tf.zeros(0, tf.int64), tf.constant([0], tf.int64)), [], "a test", ())
    refused(ragged, rows, rows, "one ragged tensor")
    deeper = tf.ragged.constant([[[1], [2]], [], [[3]]], tf.int64, row_splits_dtype=tf.int64)
    refused(ragged, deeper, rows, "one ragged tensor")
    refused(ragged, tf.ragged.constant(rows, tf.int32, row_splits_dtype=tf.int64), rows, "values")
    refused(ragged, tf.ragged.constant(rows, tf.int64, row_splits_dtype=tf.int32), rows, "lengths")
    refused(ragged, tf.ragged.constant([[1], [2], [3]], tf.int64, row_splits_dtype=tf.int64), rows, "lengths")
    refused(ragged, tf.ragged.constant([[1, 3], [], [2]], tf.int64, row_splits_dtype=tf.int64), rows, "values")


def test_arrays_have_the_dtype_that_is_asked_for():
    Close("think", dtype=None)(np.int32([1]), np.int32([1]), "a test", ())
    refused(Close("think", dtype=None), np.int64([1]), np.int32([1]), "dtype int64")
    refused(Close("think"), np.float64([1]), np.float64([1]), "dtype float64")


def test_a_part_of_what_came_is_read():
    flat = Close("think", read=lambda events: events.flat_values)
    flat(tf.ragged.constant([[1.0], [2.0]]), [1.0, 2.0], "a test", ())
    refused(flat, tf.constant([1.0, 2.0]), [1.0, 2.0], "of the kind")


# On a native kernel, with gradients, and with limits of a lesson's own.


def doubled(rng):
    yield "some numbers", rng.standard_normal(5).astype(np.float32)


def with_gradient(answer):
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = answer(x)
        return y, tape.gradient(y, x)

    return both


def test_what_is_asked_for_may_be_more_than_the_answer_gives():
    twice = Exercise(
        asks="twice(x): float32 [n] -> float32 [n]",
        cases=doubled,
        reference=lambda x: (2 * x, np.full(len(x), 2.0)),
        compare={"y": Close("2 x"), "gradient": Close("let gradients through")},
        given=tensors,
        ask=with_gradient,
    )
    twice(lambda x: 2 * x, np.random.default_rng(0))
    with pytest.raises(CheckFailed, match="`gradient`"):
        twice(lambda x: tf.stop_gradient(2 * x), np.random.default_rng(0))


def on_kernel(**options):
    return Exercise(
        asks="twice(x): float32 [n] -> float32 [n]",
        cases=doubled,
        reference=lambda x: 2 * x,
        compare=Close("2 x"),
        given=tensors,
        kernel="pointwise",
        **options,
    )


def test_a_kernel_s_exercise_wants_the_learner_s_kernel():
    with pytest.raises(CheckFailed, match="your kernel"):
        on_kernel()(lambda x: 2 * x, np.random.default_rng(0))


def test_a_kernel_is_judged_and_its_allocations_are_counted(swapped, monkeypatch):
    allocates_nothing = NoAllocation("pointwise", "3 rows", on=lambda rng: [(tf.ones(3),)], next_step="use `out`")
    judged = on_kernel(limits=[allocates_nothing])
    judged(lambda x: 2 * x, np.random.default_rng(0))
    with pytest.raises(CheckFailed) as refused:
        judged(lambda x: 1 / 0, np.random.default_rng(0))
    assert "with our kernel too" in refused.value.next_step
    monkeypatch.setattr(kernel_swap, "counts", lambda name, call: (call(), kernel_swap.Counts(1, 3))[1])
    with pytest.raises(CheckFailed, match=r"(?s)nothing is allocated.*received 3 for 3 rows"):
        judged(lambda x: 2 * x, np.random.default_rng(0))
