"""The lesson's store over real files, reopened after every so many writes."""

import random

import pytest
from ctrlab.lessons.topics.hash_store import checks, log_store
from ctrlab.lessons.topics.hash_store.log_store import LogStore


def compact(segments, limit):
    largest, _ = checks.choice(segments, limit)
    if largest is None:
        return None
    victim = next(place for place in range(len(segments) - 1) if checks.garbage(segments, place) == largest)
    return victim, checks.kept(segments, victim)


def test_it_holds_what_a_dictionary_holds(tmp_path):
    rng, model = random.Random(1), {}
    store = LogStore(tmp_path, 4, checks.recover, compact, capacity=20)
    copied = 0
    for step in range(1500):
        key = rng.choice([-1, 2**63 - 1, *range(30)])
        row = None if rng.random() < 0.2 else rng.randbytes(4)
        store.put(key, row)
        model[key] = row
        if step % 97 == 0:
            assert store.rows() == {key: row for key, row in model.items() if row is not None}
            copied += store.copied
            store.close()
            store = LogStore(tmp_path, 4, checks.recover, compact, capacity=20)
    assert store.rows() == {key: row for key, row in model.items() if row is not None}
    assert copied > 0 and all(store.get(key) == row for key, row in model.items())
    store.close()


def test_after_a_kill_the_native_store_has_what_was_flushed_and_a_file_in_place_half_a_row(tmp_path):
    rows = log_store.killed(tmp_path, 32)
    assert rows["ours"] == [b"\1" * 32] * 1_000
    assert set(rows["in place"][:500]) == {b"\2" * 32} and set(rows["in place"][500]) == {1, 2}


def test_a_process_that_does_not_die_as_it_should_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(log_store, "__package__", "ctrlab.nowhere")
    with pytest.raises(RuntimeError, match="No module named"):
        log_store.killed(tmp_path, 32)
