"""The stopwatch against functions whose true cost is known: a fake clock advances by what each call says it costs."""

import functools
import itertools
import json
import math
import operator
import random
import time
from concurrent.futures import Future

import numpy as np
import pytest
from scipy.stats import binom

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.profiling.consuming import consume
from ctrlab.profiling.timing import Comparison, Interval, Measurement, compare, measure, paired
from ctrlab.profiling.work import Ceilings, Work


class FakeClock:
    """Seconds that pass only when something says it takes time."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds, noise=0.0, seed=0):
        draw = random.Random(seed)

        def fn(*inputs):
            self.now += seconds * (1 + noise * draw.random())

        return fn


def numbered(i: int) -> tuple:
    return (np.full(4, i),)


@pytest.fixture
def clock():
    return FakeClock()


def test_a_variant_twice_as_fast(clock):
    variants = {"stock": clock.takes(0.02, noise=0.2, seed=1), "fused": clock.takes(0.01, noise=0.2, seed=2)}
    result = compare(variants, numbered, baseline="stock", repetitions=15, clock=clock)
    assert 1.7 < result.ratio("fused").low <= result.ratio("fused").median <= result.ratio("fused").high < 2.3
    assert result.verdict("fused", at_least=1.5) == "yes"
    assert result.verdict("fused", at_least=3) == "no"
    assert result.verdict("fused", at_least=result.ratio("fused").median) == "inconclusive"
    assert result.ratio("stock").median == 1


def test_equal_variants_are_never_called_faster(clock):
    variants = {"one": clock.takes(0.01, noise=0.5, seed=3), "other": clock.takes(0.01, noise=0.5, seed=4)}
    result = compare(variants, numbered, baseline="one", repetitions=15, clock=clock)
    assert result.ratio("other").low < 1 < result.ratio("other").high
    assert result.verdict("other", at_least=1.0) == "inconclusive"
    assert result.verdict("other", at_least=1.5) == "no"


def test_too_few_pairs_decide_nothing(clock):
    variants = {"slow": clock.takes(1.0), "fast": clock.takes(0.1)}
    result = compare(variants, numbered, baseline="slow", repetitions=3, clock=clock)
    assert result.ratio("fast").coverage == 0.75
    assert result.verdict("fast", at_least=2) == "inconclusive"


def test_drift_of_the_machine_cancels_in_the_ratio(clock):
    """Every call makes the machine slower; pairs in random order still give the true ratio."""
    slow, fast, calls = clock.takes(0.03), clock.takes(0.01), [0]

    def drifting(fn):
        def run(x):
            calls[0] += 1
            before = clock.now
            fn(x)
            clock.now = before + (clock.now - before) * (1 + calls[0] / 100)

        return run

    result = compare({"slow": drifting(slow), "fast": drifting(fast)}, numbered, baseline="slow", repetitions=20, clock=clock)
    assert result.ratio("fast").median == pytest.approx(3, rel=0.05)


def test_the_first_call_is_kept_apart(clock):
    compiled = []

    def compiles(x):
        clock.now += 0.01 if compiled else 60.0
        compiled.append(1)

    result = measure(compiles, numbered, repetitions=6, clock=clock)
    assert result.first_call == 60.0
    assert result.samples == pytest.approx([0.01] * 6)


def test_lazy_results_are_timed_to_their_end(clock):
    def lazy(x):
        def rows():
            for _ in range(10):
                clock.now += 0.001
                yield np.zeros(2)

        return {"rows": rows()}

    class Deferred:
        def __array__(self, dtype=None, copy=None):
            clock.now += 0.05
            return np.zeros(2)

    def future(x):
        done = Future()
        done.set_result([Deferred()])
        return done

    assert measure(lazy, numbered, repetitions=3, clock=clock).median == pytest.approx(0.01)
    assert measure(future, numbered, repetitions=3, clock=clock).median == pytest.approx(0.05)


def test_fresh_inputs_defeat_a_cache(clock):
    @functools.cache
    def remembered(key):
        clock.now += 0.001

    def cheats(x):
        remembered(x.tobytes())

    honest = clock.takes(0.001)
    result = compare({"honest": honest, "cheats": cheats}, numbered, baseline="honest", repetitions=6, clock=clock)
    assert result.ratio("cheats").median == pytest.approx(1)


def test_a_variant_that_overwrites_its_input_does_not_help_itself_or_others(clock):
    def sorts_in_place(x):
        clock.now += 0.001 if np.all(x[:-1] <= x[1:]) else 0.01
        x.sort()

    def inputs(i):
        return (np.random.default_rng(i).permutation(100),)

    variants = {"one": sorts_in_place, "two": lambda x: sorts_in_place(x)}
    result = compare(variants, inputs, baseline="one", repetitions=6, clock=clock)
    assert result["one"].median == pytest.approx(0.01) and result["two"].median == pytest.approx(0.01)


def test_every_call_of_every_variant_gets_new_inputs_made_outside_the_block(clock):
    seen = {"a": [], "b": []}

    def inputs(i):
        clock.now += 100.0
        return (np.array([i]),)

    def variant(name):
        def run(x):
            seen[name].append(x)
            clock.now += 0.004

        return run

    result = compare({n: variant(n) for n in seen}, inputs, baseline="a", repetitions=4, min_seconds=0.018, clock=clock)
    assert result["a"].median == pytest.approx(0.004)
    for calls in seen.values():
        numbers = [int(x[0]) for x in calls]
        assert numbers == list(range(4 + 4 * 5)), "one first call, three warm-ups, four blocks of five calls"
    assert not {id(x) for x in seen["a"]} & {id(x) for x in seen["b"]}


def test_chance_decides_the_order_within_a_pair():
    def orders() -> list[str]:
        ran = []
        paired({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, range(200))
        return ["".join(ran[i : i + 2]) for i in range(0, 400, 2)]

    first, second = orders(), orders()
    assert set(first) == {"ab", "ba"} and 60 < first.count("ab") < 140 and first != second


def test_equal_variants_have_equally_many_calls_in_a_block(clock):
    seen = dict.fromkeys("abc", 0)

    def variant(name, seconds):
        def run(x):
            seen[name] += 1
            clock.now += seconds

        return run

    variants = {"a": variant("a", 0.0010), "b": variant("b", 0.0018), "c": variant("c", 0.0045)}
    compare(variants, numbered, baseline="a", repetitions=1, min_seconds=0.02, clock=clock)
    assert seen == {"a": 4 + 20, "b": 4 + 20, "c": 4 + 5}


def wave(i: int, draw: random.Random) -> float:
    """Every second pair of blocks is slow: in the order A B, B A this meets A alone."""
    return 1 + 0.5 * (i % 4 in (0, 3))


def drift(i: int, draw: random.Random) -> float:
    return math.exp(2 * math.sin(i / 40)) * (1 + 0.1 * draw.random())


def bursts(i: int, draw: random.Random) -> float:
    return (1 + 0.02 * draw.random()) * (4 if (i // 7) % 5 == 0 else 1)


@pytest.mark.parametrize("noise", [wave, drift, bursts])
def test_a_kernel_is_told_from_itself_no_more_often_than_the_interval_says(clock, noise):
    """200 measurements of one function against itself, on machines whose noise is not independent."""
    draw, calls = random.Random(1), itertools.count()

    def kernel(x):
        clock.now += 0.01 * noise(next(calls), draw)

    def measured() -> Interval:
        both = {"one": kernel, "the other": kernel}
        return compare(both, numbered, baseline="one", repetitions=9, min_seconds=0, clock=clock).ratio("the other")

    require_no_difference([measured() for _ in range(200)])


def require_no_difference(found: list[Interval]) -> None:
    """Fails if intervals miss 1 more often than their coverage allows, by more than luck (1 in 1,000)."""
    false = sum(not ratio.low <= 1 <= ratio.high for ratio in found)
    assert false <= binom.ppf(0.999, len(found), 1 - found[0].coverage)


@pytest.mark.long
def test_a_real_kernel_is_not_told_from_itself():
    """With the real clock, on this machine, whatever else it does."""

    def kernel(x):
        return x @ x

    def measured() -> Interval:
        both = {"one": kernel, "the other": kernel}
        inputs = np.random.default_rng(1).random((8, 64, 64), np.float32)
        return compare(both, lambda i: (inputs[i % 8],), baseline="one", repetitions=9).ratio("the other")

    require_no_difference([measured() for _ in range(200)])


def test_measurements_of_two_runs_are_not_compared(clock):
    runs = [compare({"a": clock.takes(1.0), "b": clock.takes(2.0)}, numbered, baseline="a", clock=clock) for _ in range(2)]
    cure = r"measure both in one `compare`, and read `ratio\(variant, to=other\)`"
    with pytest.raises(CtrlabError, match=f"are of one run; 'a' and 'b' are of two: {cure}"):
        Comparison({"a": runs[0]["a"], "b": runs[1]["b"]}, "a")
    for one, other, what in (
        (runs[0].ratio("b"), runs[1].ratio("b"), "interval"),
        (runs[0]["b"], runs[1]["b"], "measurement"),
    ):
        for compared in (operator.lt, operator.le, operator.gt, operator.ge):
            with pytest.raises(CtrlabError, match=f"No {what} is less or more than another.*{cure}"):
                compared(one, other)
    assert Comparison({"a": runs[0]["a"], "b": runs[0]["b"]}, "b").ratio("a") == runs[0].ratio("a", to="b")
    assert runs[0].ratio("a", to="b").median == pytest.approx(2) and runs[0].ratio("b").median == pytest.approx(0.5)


def test_a_real_clock_tells_known_sleeps_apart():
    variants = {"long": lambda x: time.sleep(0.004), "short": lambda x: time.sleep(0.001)}
    assert compare(variants, numbered, baseline="long", repetitions=7, min_seconds=0.002).ratio("short").median > 1.5


def test_interval_matches_the_binomial_table():
    """Order statistics that hold the median with 95 %: the 1st and 6th of 6, the 2nd and 8th of 9, the 4th and 12th of 15."""
    for n, low, coverage in ((6, 1, 0.969), (9, 2, 0.961), (15, 4, 0.965), (25, 8, 0.957)):
        interval = Interval.of(list(range(1, n + 1))[::-1])
        assert (interval.low, interval.high) == (low, n + 1 - low)
        assert interval.coverage == pytest.approx(coverage, abs=1e-3)
    assert Interval.of([3.0]) == Interval(3.0, 3.0, 3.0, 0.0)


def test_interval_holds_the_true_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = [i.low <= 1.0 <= i.high for i in (Interval.of(list(np.exp(rng.normal(size=9)))) for _ in range(2000))]
    assert 0.94 < np.mean(held) < 0.98


def test_measurement_carries_its_conditions_and_survives_json(clock):
    work = Work(flops=1e6)
    ceilings = Ceilings(sgemm=1e9, bf16=2e9, stream=1e9, stream_one_thread=1e9, random_rows=1e8, sigmoids=1e9)
    variants = {"stock": clock.takes(0.01), "fused": clock.takes(0.002)}
    result = compare(variants, numbered, baseline="stock", repetitions=6, work=work, ceilings=ceilings, clock=clock)
    fused = result["fused"]
    assert fused.percent_of_bound == pytest.approx(50)
    assert fused.device and fused.threads >= 1 and fused.profile == "tiny" and fused.versions["numpy"] == np.__version__
    text = json.dumps(result.to_json())
    assert Comparison.from_json(json.loads(text)) == result
    assert Measurement.from_json(json.loads(json.dumps(fused.to_json()))) == fused
    assert measure(clock.takes(1.0), numbered, repetitions=2, clock=clock).percent_of_bound is None


def test_samples_of_other_processes_can_be_compared():
    result = Comparison.of_samples({"none": [4.0] * 6, "all": [2.0] * 6}, baseline="none")
    assert result.ratio("all") == Interval(2.0, 2.0, 2.0, 1 - 2 / 2**6)
    assert result.verdict("all", at_least=2) == "yes"
    with pytest.raises(CtrlabError, match="equally many samples"):
        Comparison.of_samples({"none": [1.0, 1.0], "all": [1.0]}, baseline="none")


def test_bad_input_is_one_sentence(clock):
    with pytest.raises(UnknownName, match=r"Unknown baseline 'stok'.*Did you mean 'stock'"):
        compare({"stock": clock.takes(1)}, numbered, baseline="stok", clock=clock)
    with pytest.raises(CtrlabError, match="must return a tuple of arguments; it returned a ndarray"):
        measure(clock.takes(1), lambda i: np.zeros(2), clock=clock)
    with pytest.raises(CtrlabError, match="at least one sample"):
        Interval.of([])
    with pytest.raises(UnknownName, match="Unknown variant"):
        Comparison.of_samples({"a": [1.0]}, baseline="a").ratio("b")


def test_tensorflow_results_are_consumed():
    import tensorflow as tf

    x = tf.constant([[1.0, 2.0]])
    consume([x, {"v": tf.Variable(x)}, tf.ragged.constant([[1], [2, 3]]), tf.constant("text"), None, 3])
    taken = []
    numbers = tf.data.Dataset.range(3).map(lambda i: tf.py_function(lambda n: taken.append(int(n)) or n, [i], tf.int64))
    consume(numbers)
    assert taken == [0, 1, 2]
    square = tf.function(lambda a: a @ a)
    result = measure(square, lambda i: (tf.random.stateless_normal([64, 64], [0, i]),), repetitions=3, min_seconds=1e-4)
    assert result.first_call > result.median > 0 and "tensorflow" in result.versions
