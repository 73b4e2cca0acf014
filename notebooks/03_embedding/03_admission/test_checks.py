"""The checks of the admission lesson against right answers and every kind of wrong one."""

import inspect

import numpy as np
from ctrlab.lessons.topics.admission import checks
from solved import solved
from wrong_answers import judge

LESSON = "03_embedding/03_admission"
right, bloom = solved(LESSON, 1), solved(LESSON, 2)


def no_op(ids, threshold, counts):
    return np.zeros(0, np.int64)


def counts_only(ids, threshold, counts):
    right(ids, threshold, counts)
    return np.zeros(0, np.int64)


def one_a_batch(ids, threshold, counts):
    return right(np.unique(ids), threshold, counts)


def more_than(ids, threshold, counts):
    return right(ids, threshold + 1, counts)


def before_the_batch(ids, threshold, counts):
    known = np.array([i for i in np.unique(ids).tolist() if counts.get(i, 0) >= threshold], np.int64)
    right(ids, threshold, counts)
    return known


def only_new(ids, threshold, counts):
    before = {i for i in ids.tolist() if counts.get(i, 0) >= threshold}
    return np.array([i for i in right(ids, threshold, counts).tolist() if i not in before], np.int64)


def all_that_ever_came(ids, threshold, counts):
    right(ids, threshold, counts)
    return np.array(sorted(i for i, n in counts.items() if n >= threshold), np.int64)


def as_they_came(ids, threshold, counts):
    admitted = right(ids, threshold, counts)
    return ids[np.isin(ids, admitted)]


def drops_negatives(ids, threshold, counts):
    return right(ids[ids >= 0], threshold, counts)


def through_float(ids, threshold, counts):
    return right(ids.astype(np.float64).clip(-(2.0**62), 2.0**62).astype(np.int64), threshold, counts)


def a_list(ids, threshold, counts):
    return right(ids, threshold, counts).tolist()


def a_new_dictionary(ids, threshold, counts):
    return right(ids, threshold, dict(counts))


def changes_its_input(ids, threshold, counts):
    ids.sort()
    ids[:] = 0
    return right(ids, threshold, counts)


def counts_in_floats(ids, threshold, counts):
    admitted = right(ids, threshold, counts)
    counts |= {key: float(n) for key, n in counts.items()}
    return admitted


def counts_in_a_byte(ids, threshold, counts):
    admitted = right(ids, threshold, counts)
    counts |= {key: min(n, 255) for key, n in counts.items()}
    return admitted


def counts_to_the_threshold(ids, threshold, counts):
    admitted = right(ids, threshold, counts)
    counts |= {key: min(n, threshold) for key, n in counts.items()}
    return admitted


def notes_ids_that_never_came(ids, threshold, counts):
    return right(ids, threshold, counts.setdefault(-7, 0) or counts)


def a_row_of_ids(ids, threshold, counts):
    return right(ids, threshold, counts)[None]


COUNTERS = [
    counts_in_floats,
    counts_in_a_byte,
    counts_to_the_threshold,
    notes_ids_that_never_came,
    a_row_of_ids,
    no_op,
    counts_only,
    one_a_batch,
    more_than,
    before_the_batch,
    only_new,
    all_that_ever_came,
    as_they_came,
    drops_negatives,
    through_float,
    a_list,
    a_new_dictionary,
    changes_its_input,
]


def loses_those_that_meet(counters, places, counts):
    total = counters.astype(np.int64)
    total[places] += counts[:, None]
    counters[:] = np.minimum(total, 255)
    return counters[places].min(axis=1, initial=255).astype(np.int64)


def wraps_around(counters, places, counts):
    np.add.at(counters, places, counts[:, None].astype(np.uint8))
    return counters[places].min(axis=1, initial=255).astype(np.int64)


def in_16_bits(counters, places, counts):
    total = counters.astype(np.int16)
    np.add.at(total, places, counts[:, None].astype(np.int16))
    counters[:] = np.minimum(total, 255)
    return counters[places].min(axis=1, initial=255).astype(np.int64)


def the_mean(counters, places, counts):
    bloom(counters, places, counts)
    return counters[places].mean(axis=1).astype(np.int64) if len(places) else counts


def the_most(counters, places, counts):
    bloom(counters, places, counts)
    return counters[places].max(axis=1, initial=0).astype(np.int64)


def before_it_was_added(counters, places, counts):
    before = counters[places].min(axis=1, initial=255).astype(np.int64)
    bloom(counters, places, counts)
    return before


def one_by_one(counters, places, counts):
    return np.array([bloom(counters, p[None], c[None])[0] for p, c in zip(places, counts)], np.int64)


def in_a_loop(counters, places, counts):
    for p, c in zip(places, counts):
        for place in p:
            counters[place] = min(255, int(counters[place]) + int(c))
    return counters[places].min(axis=1, initial=255).astype(np.int64)


def ones(counters, places, counts):
    return bloom(counters, places, np.ones_like(counts))


def on_a_copy(counters, places, counts):
    return bloom(counters.copy(), places, counts)


def low_precision(counters, places, counts):
    return bloom(counters, places, counts).astype(np.uint8)


def looks_at_what_is_wanted(counters, places, counts):
    """Wrong: reads the right answer from the check's own variables."""
    frame = inspect.currentframe()
    while (frame := frame.f_back) is not None:
        if "expected" in frame.f_locals:
            counters[:], counts = frame.f_locals["expected"]
            return counts
    return np.zeros(len(places), np.int64)


def asking_counts(counters, places, counts):
    return bloom(counters, places, np.maximum(counts, 1))


def only_the_least(counters, places, counts):
    """Raises no counter higher than it must: another filter, with fewer false positives."""
    total = counters.astype(np.int64)
    np.maximum.at(total, places, (total[places].min(axis=1, initial=255) + counts)[:, None])
    counters[:] = np.minimum(total, 255)
    return counters[places].min(axis=1, initial=255).astype(np.int64)


def changes_the_counts(counters, places, counts):
    found = bloom(counters, places, counts)
    counts[:] = 0
    return found


def the_first_counter(counters, places, counts):
    bloom(counters, places, counts)
    return counters[places][:, 0].astype(np.int64)


FILTERS = [
    looks_at_what_is_wanted,
    asking_counts,
    only_the_least,
    changes_the_counts,
    the_first_counter,
    loses_those_that_meet,
    wraps_around,
    in_16_bits,
    the_mean,
    the_most,
    before_it_was_added,
    one_by_one,
    in_a_loop,
    ones,
    on_a_copy,
    low_precision,
]
test_right, test_wrong = judge(LESSON, {1: (right, COUNTERS), 2: (bloom, FILTERS)})


def test_the_definition_never_counts_too_low():
    rng = np.random.default_rng(0)
    counters, true = np.zeros(200, np.uint8), np.zeros(300, np.int64)
    places = rng.integers(0, 200, (300, 3))
    for _ in range(10):
        ids = np.unique(rng.integers(0, 300, 50))
        true[ids] += 2
        assert np.all(checks.count_in_filter(counters, places[ids], np.full(len(ids), 2)) >= np.minimum(true[ids], 255))
