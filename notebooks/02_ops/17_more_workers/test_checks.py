"""The checks of the lesson on when more workers lose, against right answers and every kind of wrong one."""

import functools
import math

import numpy as np
import pytest
from ctrlab.lessons.topics.more_workers.checks import Trial, reference_fewest, reference_ring
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "02_ops/17_more_workers"
ring_seconds, fewest_workers = solved(LESSON, 1), solved(LESSON, 2)


def in_two_terms(size, workers, latency, per_byte):
    return 2 * latency * (workers - 1) + 2 * size * per_byte * (workers - 1) / workers


def whole_numpy(seconds, most, slack):
    return np.int64(fewest_workers(seconds, most, slack))


@pytest.mark.parametrize(("exercise", "answer"), [(1, in_two_terms), (2, whole_numpy)])
def test_other_right_answers_pass(exercise, answer):
    check.run(LESSON, exercise, answer, 3)


def test_the_references_are_the_definitions():
    assert reference_ring(12, 3, 1, 0) == 4 and reference_ring(12, 3, 0, 1) == 16 and reference_ring(12, 1, 1, 1) == 0
    assert reference_fewest([9, 5, 4, 6], 1.5) == 2 and reference_fewest([9, 5, 4, 6], 1.0) == 3
    trial = Trial([3.0, 2.0])
    assert trial(2) == 2.0 and trial.asked == [2]
    for odd in (0, 3, 1.0, True):
        with pytest.raises(Exception, match="a whole number of workers from 1 to 2"):
            trial(odd)


def nothing(*question):
    pass


def one_round(size, workers, latency, per_byte):
    return ring_seconds(size, workers, latency, per_byte) / 2


def a_step_more(size, workers, latency, per_byte):
    return 2 * workers * (latency + size / workers * per_byte)


def the_whole_gradient_each_time(size, workers, latency, per_byte):
    return 2 * (workers - 1) * (latency + size * per_byte)


def one_latency(size, workers, latency, per_byte):
    return (workers > 1) * latency + ring_seconds(size, workers, 0, per_byte)


def bytes_alone(size, workers, latency, per_byte):
    return ring_seconds(size, workers, 0, per_byte)


def messages_alone(size, workers, latency, per_byte):
    return ring_seconds(0, workers, latency, per_byte)


def as_a_tree(size, workers, latency, per_byte):
    return 2 * np.ceil(np.log2(np.maximum(workers, 1))) * (latency + size * per_byte)


def whole_bytes(size, workers, latency, per_byte):
    return 2 * (workers - 1) * (latency + size // workers * per_byte)


def branches(size, workers, latency, per_byte):
    return 0.0 if workers == 1 else ring_seconds(size, workers, latency, per_byte)


def a_list(size, workers, latency, per_byte):
    if np.ndim(workers) == 0:
        return ring_seconds(size, workers, latency, per_byte)
    return [ring_seconds(size, w, latency, per_byte) for w in workers]


def in_float32(size, workers, latency, per_byte):
    found = ring_seconds(size, workers, latency, per_byte)
    return found.astype(np.float32) if isinstance(found, np.ndarray) else np.float32(found)


def a_constant(size, workers, latency, per_byte):
    return 0.0 * workers + 1.0


def changes_its_input(size, workers, latency, per_byte):
    found = ring_seconds(size, workers, latency, per_byte)
    if isinstance(workers, np.ndarray):
        workers += 1
    return found


def a_comprehension(size, workers, latency, per_byte):
    if np.ndim(workers) == 0:
        return ring_seconds(size, workers, latency, per_byte)
    return np.array([ring_seconds(size, w, latency, per_byte) for w in workers.flat], float).reshape(workers.shape)


def comprehension_in_line(size, workers, latency, per_byte):
    counts = np.asarray(workers)
    found = np.array([2 * (w - 1) * (latency + size / w * per_byte) for w in counts.flat], float).reshape(counts.shape)
    return found if counts.ndim else float(found)


def from_a_map(size, workers, latency, per_byte):
    counts = np.asarray(workers)
    found = np.fromiter(map(lambda w: ring_seconds(size, w, latency, per_byte), counts.ravel()), float).reshape(counts.shape)
    return found if counts.ndim else float(found)


def vectorized_by_name_alone(size, workers, latency, per_byte):
    each = np.vectorize(lambda w: ring_seconds(size, w, latency, per_byte), otypes=[float])
    return each(workers) if np.ndim(workers) else ring_seconds(size, workers, latency, per_byte)


def in_bits(size, workers, latency, per_byte):
    return ring_seconds(8 * size, workers, latency, per_byte)


def a_latency_per_round(size, workers, latency, per_byte):
    return 2 * (workers > 1) * latency + ring_seconds(size, workers, 0, per_byte)


def one_after_the_other(size, workers, latency, per_byte):
    return workers * ring_seconds(size, workers, latency, per_byte)


WRONG_RINGS = [
    nothing, a_comprehension, comprehension_in_line, from_a_map, vectorized_by_name_alone, in_bits, a_latency_per_round,
    one_after_the_other, one_round, a_step_more, the_whole_gradient_each_time, one_latency, bytes_alone, messages_alone,
    as_a_tree, whole_bytes, branches, a_list, in_float32, a_constant, changes_its_input,
]  # fmt: skip


def forgets_one_alone(seconds, most, slack):
    known = functools.cache(lambda w: math.inf if w == 1 and most > 1 else seconds(w))
    return fewest_workers(known, most, slack)


def one_alone_is_like_the_others(seconds, most, slack):
    known = functools.cache(seconds)
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if known(middle) < known(middle + 1) else (middle + 1, high)
    limit, best, low = slack * known(low), low, 1
    while low < best:
        middle = (low + best) // 2
        low, best = (low, middle) if known(middle) <= limit else (middle + 1, best)
    return best


def the_fastest(seconds, most, slack):
    return fewest_workers(seconds, most, 1.0)


def linear(seconds, most, slack):
    table = [seconds(w) for w in range(1, most + 1)]
    return next(w for w, each in enumerate(table, 1) if each <= slack * min(table))


def asks_twice(seconds, most, slack):
    seconds(1)
    return fewest_workers(seconds, most, slack)


def within_the_whole_range(seconds, most, slack):
    limit = slack * seconds(fewest_workers(functools.cache(seconds), most, 1.0))
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(middle) <= limit else (middle + 1, high)
    return high


def the_limit_itself_is_too_slow(seconds, most, slack):
    return fewest_workers(seconds, most, math.nextafter(slack, 0)) if slack > 1 else fewest_workers(seconds, most, slack)


def one_more(seconds, most, slack):
    return min(most, fewest_workers(seconds, most, slack) + 1)


def one_fewer(seconds, most, slack):
    return max(1, fewest_workers(seconds, most, slack) - 1)


def a_float(seconds, most, slack):
    return float(fewest_workers(seconds, most, slack))


def always_one(seconds, most, slack):
    return 1


def always_all(seconds, most, slack):
    return most


def ignores_most(seconds, most, slack):
    return fewest_workers(seconds, 2 * most, slack)


def for_a_fixed_slack(seconds, most, slack):
    return fewest_workers(seconds, most, 1.05)


WRONG_SEARCHES = [
    nothing, forgets_one_alone, one_alone_is_like_the_others, the_fastest, linear,
    asks_twice, within_the_whole_range, the_limit_itself_is_too_slow, one_more, one_fewer, a_float,
    always_one, always_all, ignores_most, for_a_fixed_slack,
]  # fmt: skip

LOOPS = dict.fromkeys([a_comprehension, comprehension_in_line, from_a_map, vectorized_by_name_alone], "no loop over")
RINGS = (
    dict.fromkeys(WRONG_RINGS)
    | LOOPS
    | {
        nothing: "NoneType",
        one_round: "yours is half",
        in_bits: "multiplied by 8",
        the_whole_gradient_each_time: "not the whole gradient",
        whole_bytes: "in place of //",
        one_latency: "yours has it once",
        a_latency_per_round: "each round has its latency",
        one_after_the_other: "yours adds up",
        a_step_more: "not W",
        in_float32: "yours is float32",
        as_a_tree: "count those of W workers",
        a_list: "without a loop",
    }
)
SEARCHES = dict.fromkeys(WRONG_SEARCHES) | {
    asks_twice: "each w once",
    linear: "It asked for .* different w; at most .* are allowed; here",
}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (ring_seconds, RINGS), 2: (fewest_workers, SEARCHES)})
