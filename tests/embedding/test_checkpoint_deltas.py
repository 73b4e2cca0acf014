"""A full state and its deltas are, one by one or merged, the state at the end; cut into shards and joined it is the same."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from histories import as_rows, histories, live, new_table, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.embedding.formats import table_arrays
from ctrlab.embedding.formats.partition import concatenate, join, shard
from ctrlab.embedding.formats.table_arrays import apply_delta, checked, from_arrays, merge_deltas, require_fits, to_arrays
from ctrlab.errors import BadData, CtrlabError


def saves_of(table, history):
    """The full state at the first save, the delta of each later one, the full state at the last."""
    full = last = table.state()
    table.changed()
    deltas = []
    for _ in live(table, [*history, "save"]):
        deltas.append(table.changed())
        last = table.state()
    return full, deltas, last


@settings(max_examples=150, deadline=None)
@given(table=tables, history=histories, cut=st.data())
def test_the_last_state_comes_from_the_first_and_its_deltas(table, history, cut):
    full, deltas, last = saves_of(table, history)
    one_by_one = full
    for delta in deltas:
        one_by_one = apply_delta(one_by_one, delta)
    merged = merge_deltas(deltas)
    place = cut.draw(st.integers(1, len(deltas)))
    halves = merge_deltas([merge_deltas(part) for part in (deltas[:place], deltas[place:]) if part])
    assert as_rows(one_by_one) == as_rows(apply_delta(full, merged)) == as_rows(last)
    assert as_rows(halves) == as_rows(merged)
    assert not {*merged.removed} & {*merged.keys, *merged.candidate_keys}


@settings(max_examples=100, deadline=None)
@given(table=tables, history=histories, n=st.integers(1, 5), m=st.integers(1, 5))
def test_shards_hold_each_key_once_whatever_their_number(table, history, n, m):
    full, deltas, last = saves_of(table, history)
    for state in (last, *deltas):
        cut = [shard(state, j, n) for j in range(n)]
        again = [shard(join(cut), j, m) for j in range(m)]
        assert as_rows(join(again)) == as_rows(state)
    after = [apply_delta(shard(full, j, n), shard(merge_deltas(deltas), j, n)) for j in range(n)]
    assert as_rows(join(after)) == as_rows(last)


@settings(max_examples=50, deadline=None)
@given(table=tables, history=histories)
def test_arrays_give_the_state_back(table, history):
    _, deltas, last = saves_of(table, history)
    for state, is_delta in ((last, False), (deltas[-1], True)):
        arrays = to_arrays("a/b", state, is_delta) | {"model/dense/kernel": np.ones(3)}
        found = from_arrays(arrays, "file")
        assert list(found) == ["a/b"]
        narrow = replace(
            state, values=np.float32(state.values), slots={name: np.float32(slot) for name, slot in state.slots.items()}
        )
        assert as_rows(found["a/b"]) == as_rows(narrow)


def small(keys=(1, 2), **changes):
    n = len(keys)
    rows = {"values": np.ones((n, 2), np.float32), "slots": {"m": np.zeros((n, 2), np.float32)}}
    state = replace(
        new_table().state(), keys=np.array(keys, np.int64), frequencies=np.ones(n, np.int64), **rows, steps=np.ones(n, np.int64)
    )
    return replace(state, **changes)


def test_what_a_delta_says_of_a_key_holds():
    """Computed by hand: key 1 stays, 2 changes, 3 is removed, 4 was a candidate and has a row now, 5 was removed and is
    counted again.
    """
    before = small([1, 2, 3, 5])
    before = replace(before, candidate_keys=np.array([4]), candidate_counts=np.array([9]), candidate_steps=np.array([1]))
    delta = small([2, 4], values=np.full((2, 2), 7, np.float32), removed=np.array([3, 5]))
    delta = replace(delta, candidate_keys=np.array([5]), candidate_counts=np.array([1]), candidate_steps=np.array([8]))
    after = as_rows(apply_delta(before, delta))
    assert {key: row[0] for key, row in after["rows"].items()} == {1: [1.0, 1.0], 2: [7.0, 7.0], 4: [7.0, 7.0]}
    assert after["candidates"] == {5: (1, 8)} and after["removed"] == []


def test_the_filter_is_that_of_the_last():
    deltas = [small([i], filter=np.full(3, i, np.uint8)) for i in (1, 2)]
    assert apply_delta(small(filter=np.zeros(3, np.uint8)), merge_deltas(deltas)).filter.tolist() == [2, 2, 2]


def test_a_filter_of_shards_counts_no_key_too_low():
    halves = [small([i], filter=np.array(counters, np.uint8)) for i, counters in enumerate([[1, 0, 255], [0, 2, 3]])]
    assert join(halves).filter.tolist() == [1, 2, 255]
    whole = small(filter=np.array([5, 6], np.uint8))
    assert join([shard(whole, j, 3) for j in range(3)]).filter.tolist() == [5, 6]


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"values": np.ones((2, 3), np.float32)}, "the rows of dimension are 2 in one and 3 in the other"),
        ({"slots": {}}, r"the slots are \['m'\] in one and \[\] in the other"),
        ({"filter": np.zeros(4, np.uint8)}, "the filter bytes are 0 in one and 4 in the other"),
    ],
)
def test_of_another_table(changes, sentence):
    other = small(**changes)
    with pytest.raises(BadData, match="and its delta .*one table: " + sentence):
        apply_delta(small(), other)
    with pytest.raises(BadData, match="Delta 0 and delta 2 .*: " + sentence):
        merge_deltas([small(), small(), other])
    with pytest.raises(BadData, match="Shard 0 and shard 1 .*: " + sentence):
        join([small([1]), replace(other, keys=np.array([5, 6]))])


def test_what_fits_a_table():
    require_fits(small(), small([7], slots={"m": np.zeros((1, 2), np.float32)}), "file: table a")
    require_fits(small(slots={}), small(), "file: table a")
    for changes, sentence in [
        ({"values": np.ones((2, 3), np.float32)}, "has rows of dimension 3 in the checkpoint and of 2 in the model"),
        ({"slots": {"v": np.zeros((2, 2), np.float32)}}, r"has the slots \['v'\] in the checkpoint and \['m'\] in the model"),
        ({"filter": np.zeros(4, np.uint8)}, "has a filter of 4 bytes in the checkpoint and of 0 in the model"),
    ]:
        with pytest.raises(CtrlabError, match="file: table a " + sentence):
            require_fits(small(**changes), small(), "file: table a")


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_parts_are_the_whole(rows, monkeypatch):
    """Tombstones of older files may be of keys that came back: in parts, too, the row is the last word."""
    monkeypatch.setattr(table_arrays, "rows_a_part", lambda *_: rows)
    state = small([1, 2, 3, 5], filter=np.arange(3, dtype=np.uint8), removed=np.array([7, 8, 1, 9, 5]))
    state = replace(state, candidate_keys=np.array([6]), candidate_counts=np.array([2]), candidate_steps=np.array([1]))
    parts = list(checked(state, "table a"))
    assert as_rows(concatenate([replace(part, filter=parts[0].filter) for part in parts])) == as_rows(state)
    assert all(max(len(part.keys), len(part.candidate_keys), len(part.removed)) <= rows for part in parts)
    before = replace(small([7, 1, 4]), filter=np.zeros(3, np.uint8))
    one_by_one = functools.reduce(lambda a, b: apply_delta(a, replace(b, filter=state.filter)), parts, before)
    assert as_rows(one_by_one) == as_rows(apply_delta(before, state))


def test_a_key_twice_in_a_large_state_is_seen_where_it_is_looked_for(monkeypatch):
    """Beyond a million keys as many are held against each other; an array that was never filled is seen whatever it holds."""
    monkeypatch.setattr(table_arrays, "MOST_SEEN", 100)
    monkeypatch.setattr(table_arrays, "rows_a_part", lambda *_: 50)
    keys = np.arange(1_000)
    assert sum(len(part.keys) for part in checked(small(keys), "table a")) == 1_000
    for bad in (np.where(keys < 700, keys, 0), np.where(keys < 700, keys, keys - 700)):
        with pytest.raises(BadData, match="table a has each key once"):
            list(checked(small(bad), "table a"))


def test_nothing_to_merge_and_no_such_shard():
    with pytest.raises(CtrlabError, match="received none"):
        merge_deltas([])
    with pytest.raises(CtrlabError, match="from 0 to 2; received 3"):
        shard(small(), 3, 3)
    with pytest.raises(BadData, match="key 2 is in 2"):
        join([small([1, 2]), small([2, 3])])


@pytest.mark.parametrize(
    "field, array, sentence",
    [
        ("values", np.zeros((2, 2)), r"values must be float32 \[2, 2\]; it is float64 \[2, 2\]"),
        ("values", np.zeros(2, np.float32), r"values must be of shape \[n, D\]; it is \[2\]"),
        ("keys", np.zeros(3, np.int64), r"keys must be int64 \[2\]; it is int64 \[3\]"),
        ("keys", np.array(3), r"keys must be int64 \[2\]; it is int64 \[\]"),
        ("slot_m", np.zeros((2, 3), np.float32), r"slot_m must be float32 \[2, 2\]; it is float32 \[2, 3\]"),
        ("candidate_counts", np.zeros(1, np.int64), r"candidate_counts must be int64 \[0\]; it is int64 \[1\]"),
        ("candidate_keys", np.array(3), r"candidate_keys must be int64"),
        ("filter", np.zeros(1, np.int8), r"filter must be uint8 \[1\]; it is int8 \[1\]"),
        ("steps", None, "steps is missing"),
        ("colour", np.zeros(2), "colour is no array of this format's"),
    ],
)
def test_a_foreign_file(field, array, sentence):
    arrays = to_arrays("item", small()) | {f"embedding/item/{field}": array}
    with pytest.raises(BadData, match="file: embedding/item/" + sentence):
        from_arrays({name: a for name, a in arrays.items() if a is not None}, "file")
