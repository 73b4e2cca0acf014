"""Rows dealt out to workers: nothing lost, nothing twice, in the same number of steps for all."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctrlab.data.dealing import Dealing
from ctrlab.errors import BadData, CtrlabError

SEED = 5


def steps_of(dealing: Dealing, steps: int | None):
    """The rows of each of the next steps by numbers alone: a list of steps with a list of each worker's rows."""
    (at, done), found = dealing.start, []
    most = dealing.steps if steps is None else steps
    while len(found) < most and at.epoch < dealing.epochs:
        orders = [rows_in_order(dealing, at, w) for w in range(dealing.workers)]
        for k in range(done, dealing.steps_of(at)):
            found.append([o[k * dealing.part(w) : (k + 1) * dealing.part(w)] for w, o in enumerate(orders)])
        at, done = type(at)(at.epoch + 1, at.segment, dealing.workers), 0
    return found[:most]


def rows_in_order(dealing, at, worker):
    windows = [window.numpy() for window in dealing.order(at, worker)]
    return np.concatenate(windows) if windows else np.zeros(0, np.int64)


def times(steps, rows: int) -> np.ndarray:
    """How often each row came."""
    found = np.zeros(rows, np.int64)
    for step in steps:
        for part in step:
            np.add.at(found, part, 1)
    return found


segments = st.lists(st.tuples(st.integers(1, 7), st.integers(0, 12)), max_size=3)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 150),
    batch=st.integers(7, 40),
    epochs=st.integers(1, 3),
    shuffle=st.sampled_from([0, 4, 30]),
    begun=segments,
    workers=st.integers(1, 7),
)
@example(rows=3, batch=7, epochs=2, shuffle=0, begun=[], workers=7)
@example(rows=100, batch=8, epochs=2, shuffle=30, begun=[(4, 13), (3, 1), (3, 2), (5, 0)], workers=2)
def test_each_row_comes_once_in_an_epoch_whatever_the_workers(rows, batch, epochs, shuffle, begun, workers):
    history, trained = (), []
    for count, steps in begun:
        taken = steps_of(Dealing(rows, batch, count, shuffle, SEED, epochs, history), steps)
        history, trained = (*history, (count, len(taken))), trained + taken
    trained += steps_of(Dealing(rows, batch, workers, shuffle, SEED, epochs, history), None)
    assert (times(trained, rows) == epochs).all()
    for step in trained:
        assert 1 <= sum(map(len, step)) <= batch


@settings(max_examples=10, deadline=None)
@given(rows=st.integers(1, 150), cut=st.integers(0, 20), workers=st.integers(1, 5), shuffle=st.sampled_from([0, 30]))
def test_the_same_workers_go_on_as_if_nothing_had_been(rows, cut, workers, shuffle):
    whole = steps_of(Dealing(rows, 16, workers, shuffle, SEED, 2), None)
    rest = steps_of(Dealing(rows, 16, workers, shuffle, SEED, 2, ((workers, min(cut, len(whole))),)), None)
    assert len(rest) == len(whole[cut:])
    for a, b in zip(whole[cut:], rest):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_shuffled_rows_are_in_another_order_in_each_epoch_and_for_each_seed():
    def first(seed, epoch):
        dealing = Dealing(400, 16, 2, 100, seed, 3)
        at, _ = dealing.start
        return rows_in_order(dealing, type(at)(epoch, 0, 2), 1).tolist()

    orders = [first(1, 0), first(1, 1), first(1, 2), first(2, 0)]
    assert all(sorted(order) == list(range(200, 400)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_a_dealer_that_loses_or_repeats_a_row_is_seen():
    steps = steps_of(Dealing(50, 8, 3), None)
    assert (times(steps, 50) == 1).all()
    assert not (times(steps[:-1], 50) == 1).all()
    assert not (times([*steps, [np.array([7])]], 50) == 1).all()


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"workers": 9}, "Each worker needs a row of each batch; received 9 workers for batches of 8"),
        ({"workers": 0}, "received 0 workers"),
        ({"rows": 0}, "Rows are dealt out from 1 on"),
        ({"epochs": 0}, "or -1 for no end"),
        ({"shuffle": -1}, "shuffled by 0 or more"),
    ],
)
def test_numbers_out_of_range(numbers, said):
    with pytest.raises(CtrlabError, match=said):
        Dealing(**{"rows": 10, "batch_size": 8, "workers": 2} | numbers)


# From files


@pytest.fixture(scope="module")
def schema():
    from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema

    return Schema("dealt", (Numeric("row"), Categorical("word", 10), MultiHot("words", 10), Label("click")))


def write(folder, rows: int, seed: int, per_group: int = 40):
    """Files with row groups of random sizes; column `row` counts."""
    rng, first, number = np.random.default_rng(seed), 0, 0
    while first < rows:
        of_file = min(rows - first, int(rng.integers(1, 3 * per_group)))
        ids = np.arange(first, first + of_file)
        lists = [["a"] * int(n) for n in rng.integers(0, 3, of_file)]
        table = pa.table({"row": ids.astype("f4"), "word": ids.astype(str), "words": lists, "click": (ids % 2).astype("f4")})
        with pq.ParquetWriter(folder / f"{number:03}.parquet", table.schema) as file:
            done = 0
            while done < of_file:
                size = int(rng.integers(1, per_group))
                file.write_table(table.slice(done, size))
                done += size
        first, number = first + of_file, number + 1
    return folder


def read_rows(folder, schema, dealing, worker):
    from ctrlab import data

    found = []
    for features, labels in data.read_dealt(folder, schema, dealing, worker):
        row = features["row"].numpy()
        assert features["words"].nrows() == len(labels) == len(row)
        assert (labels[:, 0].numpy() == row % 2).all() and (features["word"].numpy() == row.astype(int).astype("S")).all()
        found.append(row.astype(np.int64))
    return found


@pytest.mark.parametrize("workers", range(1, 8))
def test_files_of_any_row_groups_are_read_as_dealt(workers, schema, tmp_path):
    rows = 211 + workers
    folder = write(tmp_path, rows, seed=workers)
    for shuffle, history in ((0, ()), (50, ()), (50, ((workers, 5),)), (50, ((2, 4), (3, 1)))):
        dealing = Dealing(rows, 16, workers, shuffle, SEED, 2, history)
        read = [read_rows(folder, schema, dealing, w) for w in range(workers)]
        assert {len(batches) for batches in read} == {dealing.steps}
        for step, expected in zip(zip(*read), steps_of(dealing, None), strict=True):
            assert [part.tolist() for part in step] == [part.tolist() for part in expected]


def test_a_worker_decodes_no_row_group_of_others(schema, tmp_path):
    """The others' row groups are damaged, and it does not notice."""
    ids = np.arange(400)
    table = pa.table({"row": ids.astype("f4"), "word": ids.astype(str), "words": [["a"]] * 400, "click": (ids % 2).astype("f4")})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=50, compression="none", use_dictionary=False)
    groups = pq.ParquetFile(path).metadata
    content = bytearray(path.read_bytes())
    for g in range(4, 8):  # worker 1's
        for c in range(groups.num_columns):
            chunk = groups.row_group(g).column(c)
            content[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
                b"\xff" * chunk.total_compressed_size
            )
    path.write_bytes(content)
    dealing = Dealing(400, 16, 2, 50, SEED, 2)
    assert sorted(np.concatenate(read_rows(path, schema, dealing, 0)).tolist()) == sorted([*range(200), *range(200)])
    from ctrlab.data import explained

    with pytest.raises(Exception, match=r"rows\.parquet"), explained():
        read_rows(path, schema, dealing, 1)


def test_an_endless_dealing_goes_on(schema, tmp_path):
    from ctrlab import data

    folder = write(tmp_path, 60, seed=1)
    batches = iter(data.read_dealt(folder, schema, Dealing(60, 16, 2, 0, 0, -1, ((2, 9),)), 0))
    rows = np.concatenate([next(batches)[0]["row"].numpy() for _ in range(11)]).astype(int).tolist()
    assert rows[:6] == [8, 9, 10, 11, 12, 13] and Dealing(60, 16, 2, 0, 0, -1).steps is None


def test_what_can_not_be_dealt_out(schema, tmp_path):
    from ctrlab import data

    folder = write(tmp_path, 60, seed=1)
    with pytest.raises(CtrlabError, match="are those of the files, 60; received 61"):
        data.read_dealt(folder, schema, Dealing(61, 16, 2), 0)
    (tmp_path / "rows.csv").write_text("a\n")
    with pytest.raises(CtrlabError, match="Several workers read Parquet files"):
        data.read_dealt(tmp_path / "rows.csv", schema, Dealing(61, 16, 2), 0)
    with pytest.raises(BadData, match="does not exist"):
        data.read_dealt(tmp_path / "none.parquet", schema, Dealing(61, 16, 2), 0)
