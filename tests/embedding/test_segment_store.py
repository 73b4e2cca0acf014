"""The store from Python, and its files read by NumPy."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlab.embedding.store import Store, segments
from ctrlab.errors import BadData, CtrlabError

EXTREMES = [-(2**63), -2, -1, 0, 1, 2**63 - 1]


def rows_of(numbers, dim=3):
    return np.repeat(np.asarray(numbers, np.float32)[:, None], dim, axis=1) + np.arange(dim, dtype=np.float32)


def content(store):
    return {int(key): row.tobytes() for keys, rows in store.items(batch=7) for key, row in zip(keys, rows)}


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "erase", "flush", "compact", "reopen"]), st.lists(st.sampled_from([*EXTREMES, *range(10, 30)]))
    ),
    max_size=30,
)


@given(operations, st.booleans(), st.sampled_from(["async", "sync"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_holds_what_a_dictionary_holds(tmp_path_factory, steps, direct, compaction):
    folder = tmp_path_factory.mktemp("store")
    options = {"segment_bytes": 1000, "write_buffer": 4096, "compaction": compaction, "direct": direct}
    store, model, number = Store(folder, 3, **options), {}, 0
    for what, keys in steps:
        if what == "put":
            rows = rows_of(range(number, number := number + len(keys)))
            store.put(keys, rows)
            model |= {key: row.tobytes() for key, row in zip(keys, rows)}
        elif what == "erase":
            store.erase(keys)
            model = {key: row for key, row in model.items() if key not in keys}
        elif what == "reopen":
            store.close()
            store = Store(folder, 3, **options)
        else:
            getattr(store, what)()
        rows, found = store.get(EXTREMES)
        assert {k: r.tobytes() for k, r, f in zip(EXTREMES, rows, found) if f} == {k: model[k] for k in EXTREMES if k in model}
        assert not rows[~found].any()
    assert content(store) == model and store.stats().live == len(model)
    store.close()
    keys, rows = segments.read(folder)
    assert dict(zip(keys.tolist(), (row.tobytes() for row in rows))) == model


def test_a_snapshot_stays_what_it_was(tmp_path):
    with Store(tmp_path, 3, segment_bytes=1000, compaction="sync") as store:
        store.put(np.arange(100), rows_of(np.zeros(100)))
        items = store.items(batch=10)
        keys, _ = next(items)
        for version in range(1, 20):
            store.put(np.arange(100), rows_of(np.full(100, version)))
        store.erase(np.arange(50))
        store.compact()
        for more, rows in items:
            assert np.array_equal(rows, rows_of(np.zeros(len(more))))
            keys = np.append(keys, more)
        assert np.array_equal(np.sort(keys), np.arange(100))
        assert store.stats().compactions > 0


def test_write_amplification_is_bounded(tmp_path):
    """The derived bound: compaction copies at most 2 records for each that it removes."""
    rng = np.random.default_rng(1)
    with Store(tmp_path, 3, segment_bytes=20_000, compaction="sync") as store:
        for version in range(200):
            hot = rng.integers(0, 400, 200) if version % 5 else rng.integers(400, 2000, 200)
            store.put(hot, rows_of(np.full(200, version)))
        stats = store.stats()
    assert 1 < stats.write_amplification <= 3
    assert stats.total <= 1.5 * stats.live + 2 * 20_000 / 36  # but for the segment that is being written and one beside it


def test_bad_input_is_one_sentence(tmp_path):
    with Store(tmp_path / "a", 3) as store:
        with pytest.raises(CtrlabError, match="another one has that in"):
            Store(tmp_path / "a", 3)
        for keys in ([[1]], [0.5], ["1"]):
            with pytest.raises(CtrlabError, match=r"keys must be int64 \[n\]"):
                store.get(keys)
        with pytest.raises(CtrlabError, match=r"rows must be \[2, 3\]"):
            store.put([1, 2], np.zeros((2, 4)))
        store.put([1], np.ones((1, 3)))
        store.get([])
        store.put([], np.zeros((0, 3)))
    store.close()
    with pytest.raises(CtrlabError, match="was closed"):
        store.get([1])
    with pytest.raises(CtrlabError, match="has rows of 12 bytes, 16 were asked for"):
        Store(tmp_path / "a", 4)
    with pytest.raises(CtrlabError, match="row_bytes must be in"):
        Store(tmp_path / "a", 0)
    with pytest.raises(CtrlabError, match="compaction"):
        Store(tmp_path / "b", 3, compaction="never")


def test_a_forked_child_is_refused_and_its_parent_goes_on(tmp_path):
    script = """
import numpy as np, os, sys
from ctrlab.embedding.store import Store
from ctrlab.errors import CtrlabError
store = Store(sys.argv[1], 3)
store.put(np.arange(10), np.ones((10, 3)))
items = store.items()
next(items)
(ready, go), (waits, end) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: store.put([1], np.zeros((1, 3))), lambda: store.get([1]), lambda: store.erase([1]), store.flush,
                 store.compact, store.stats, store.warnings, lambda: next(store.items()), lambda: next(items)):
        try:
            call()
        except CtrlabError as error:
            refused += "forked" in str(error)
    store.close()
    os.write(go, bytes([refused]))
    os.close(end)
    os.read(waits, 1)  # lives on
    os._exit(0)
assert os.read(ready, 1) == bytes([9])
assert (store.get(np.arange(10))[0] == 1).all()
store.close()
with Store(sys.argv[1], 3) as store:
    assert store.stats().live == 10 and (store.get(np.arange(10))[0] == 1).all()
os.close(end)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "s"], env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}, check=True)


@pytest.mark.parametrize("compaction", ["async", "sync"] * 5)
def test_a_store_that_is_closed_while_threads_are_inside_answers_with_a_sentence(tmp_path, compaction):
    store, keys = Store(tmp_path, 3, segment_bytes=4000, compaction=compaction), np.arange(2_000)

    def until_closed(call):
        with pytest.raises(CtrlabError, match=r"closed .*open it again"):
            while True:
                call()

    calls = (
        lambda: store.put(keys, np.ones((2_000, 3))),
        lambda: store.get(keys),
        lambda: store.erase(keys[::3]),
        lambda: [*store.items()],
        store.stats,
    )
    with ThreadPoolExecutor(len(calls)) as pool:
        inside = [pool.submit(until_closed, call) for call in calls]
        time.sleep(0.05)
        store.close()
        assert [future.result() for future in inside] == [None] * len(calls)


def test_rows_that_are_being_read_outlive_the_store(tmp_path):
    store = Store(tmp_path, 3, segment_bytes=1000, compaction="sync")
    store.put(np.arange(100), rows_of(np.arange(100)))
    items = store.items(batch=10)
    found = dict([*zip(*next(items))])
    store.close()
    with Store(tmp_path, 3, segment_bytes=1000, compaction="sync") as store:
        store.erase(np.arange(100))
        store.compact()
        found |= {key: row for keys, rows in items for key, row in zip(keys, rows)}
    assert sorted(found) == [*range(100)]
    np.testing.assert_array_equal(np.stack([found[key] for key in range(100)]), rows_of(np.arange(100)))


def test_a_killed_process_leaves_what_it_flushed_and_says_so(tmp_path):
    script = """
import numpy as np, os, signal, sys
from ctrlab.embedding.store import Store
store = Store(sys.argv[1], 3)
store.put(np.arange(10), np.ones((10, 3)))
store.flush()
store.put(np.arange(10), np.zeros((10, 3)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "s"], env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    keys, rows = segments.read(tmp_path / "s")
    assert np.array_equal(keys, np.arange(10)) and (rows.view("<f4") == 1).all()
    with Store(tmp_path / "s", 3) as store:
        assert (store.get(np.arange(10))[0] == 1).all()
        (warning,) = store.warnings()
        assert "never sealed" in warning and "0000000001.seg" in warning


def test_a_missing_segment_is_noticed_and_a_leftover_is_not_read(tmp_path):
    with Store(tmp_path, 3, segment_bytes=400, compaction="sync") as store:
        store.put(np.arange(30), np.ones((30, 3)))
    paths = sorted(tmp_path.glob("*.seg"))
    copies = [path.read_bytes() for path in paths]
    assert len(paths) == 4
    paths[1].unlink()
    with pytest.raises(BadData, match=f"{paths[1]} is missing"):
        segments.read(tmp_path)
    with pytest.raises(CtrlabError, match=f"{paths[1]} is missing; restore it from a copy, or remove .*MANIFEST"):
        Store(tmp_path, 3)
    (tmp_path / "MANIFEST").unlink()
    with Store(tmp_path, 3, segment_bytes=400, compaction="sync") as store:
        assert store.stats().live == 21 and "has no MANIFEST" in store.warnings()[0]
        store.erase(np.arange(30))
        store.compact()
    paths[1].write_bytes(copies[1])  # as if the process had died before it could remove what it had compacted
    assert len(segments.read(tmp_path)[0]) == 0
    with Store(tmp_path, 3) as store:
        assert store.stats().live == 0 and not paths[1].exists() and not store.warnings()


def test_what_is_whole_is_salvaged_from_a_damaged_store(tmp_path):
    live, damaged = tmp_path / "live", tmp_path / "damaged"
    with Store(live, 3) as store:
        for keys in (np.arange(5), np.arange(5, 10)):
            store.put(keys, rows_of(keys))
            store.flush()
        shutil.copytree(live, damaged)  # not sealed yet
    (path,) = damaged.glob("*.seg")
    content = bytearray(path.read_bytes())
    content[64 + 36 * 3 + 30] ^= 1
    path.write_bytes(content)
    with pytest.raises(CtrlabError, match=f"{path} at byte {64 + 36 * 3} .*by the command ctrlab embedding salvage"):
        Store(damaged, 3)
    keys, rows, (problem,) = segments.salvage(damaged)
    assert f"{path} at byte {64 + 36 * 3} is not. What 1 of its " in problem
    assert np.array_equal(keys, [0, 1, 2, 4, 5, 6, 7, 8, 9]) and np.array_equal(rows.view("<f4"), rows_of(keys))


def test_numpy_drops_what_comes_after_a_gap_too(tmp_path):
    """A loss of power may leave this: a segment that was not flushed is gone, but a later one exists."""
    live, left = tmp_path / "live", tmp_path / "left"
    with Store(live, 3, segment_bytes=400, compaction="sync") as store:
        store.put(np.arange(5), np.ones((5, 3)))
        store.flush()
        manifest = (live / "MANIFEST").read_bytes()
        store.put(np.arange(5, 35), np.ones((30, 3)))
        shutil.copytree(live, left)
    (left / "MANIFEST").write_bytes(manifest)
    (left / "0000000002.seg").unlink()
    later = sorted(left.glob("*.seg"))[1:]
    assert len(later) >= 2
    with pytest.raises(BadData, match=f"{later[0]} was after record number 9, which is missing"):
        segments.read(left)
    with pytest.raises(CtrlabError, match=f"{later[0]} was after record number 9, which is in no segment"):
        Store(left, 3)
    for path in later:
        path.write_bytes(path.read_bytes()[:-1])  # without the footer nothing says that all before was on the disk
    keys, _ = segments.read(left)
    with Store(left, 3) as store:
        assert any("a loss of power took" in warning for warning in store.warnings())
        assert np.array_equal(np.sort(np.concatenate([k for k, _ in store.items()])), keys)
    assert 5 <= len(keys) < 14 and np.array_equal(keys, np.arange(len(keys)))


def test_numpy_finds_damage(tmp_path):
    with Store(tmp_path, 3) as store:
        store.put(np.arange(10), np.ones((10, 3)))
    (path,) = tmp_path.glob("*.seg")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[64 + 36 * 4 + 30] ^= 1  # in the row of the fifth record
    path.write_bytes(damaged)
    with pytest.raises(BadData, match=f"at byte {64 + 36 * 4}"):
        segments.read(tmp_path)
    with Store(tmp_path, 3) as store, pytest.raises(CtrlabError, match=f"key 4 in .* at byte {64 + 36 * 4} is damaged"):
        store.get(np.arange(10))
    path.write_bytes(b"x" * 100)
    with pytest.raises(BadData, match="none at byte 0"):
        segments.read(tmp_path)
    assert segments.crc32c(np.frombuffer(b"123456789", np.uint8)[None]) == 0xE3069283
