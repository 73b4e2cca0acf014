"""The weights files of several workers, merged, hold what one process writes."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ctrlab.errors import CtrlabError
from ctrlab.serving import weights
from ctrlab.serving.merging import merge_weights
from ctrlab.serving.record_file import records_in
from ctrlab.serving.rows import words
from ctrlab.serving.weights import HEAD, RUN, Moment, write_update, write_weights
from ctrlab.training.changes import Changed
from ctrlab.whole_batch import Shard

PROGRAM = Path(__file__).with_name("merging_in_little_memory.py")
SIZES = [(1, 5), (4, 1), (53, 3), (1_000, 8), (1_001, 8)]
FORMATS = ["float32", "float32", "bf16", "int8", "float32"]
MOMENT = Moment(step=9, update=0, micros=5)


def tables_in(path: Path) -> list[np.ndarray]:
    """The rows of all tables, as they are in the file; they must come in order."""
    found = [np.zeros((0, words(f, dim)), np.float32) for f, (_, dim) in zip(FORMATS, SIZES)]
    for record in records_in(path):
        kind, t, first, count = HEAD.unpack_from(record)
        if kind == RUN:
            assert first == len(found[t])
            found[t] = np.concatenate([found[t], np.frombuffer(record, np.float32, offset=HEAD.size).reshape(count, -1)])
    return found


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_rows_come_in_turn_and_all_others_as_they_are(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "PART_BYTES", 2_000)  # several records of a table
    rng = np.random.default_rng(workers)
    tables, dense = [rng.standard_normal(size, np.float32) for size in SIZES], [rng.standard_normal(900), np.arange(3)]
    write_weights(tmp_path / "whole", "a", MOMENT, tables, [], dense, FORMATS)
    parts = [tmp_path / str(index) for index in range(workers)]
    for index, part in enumerate(parts):
        shard = Shard(index, workers)
        mine = [table[index::workers] for table in tables]
        write_weights(part, "", Moment(step=9), mine, [], dense if index == 0 else [], FORMATS, shard)
    size = merge_weights(parts, tmp_path / "merged", "a", MOMENT)
    assert size == (tmp_path / "merged").stat().st_size
    whole, merged = list(records_in(tmp_path / "whole")), list(records_in(tmp_path / "merged"))
    assert merged[0] == whole[0] and max(map(len, merged)) <= 2_000 + HEAD.size
    others = [[r for r in records[:-1] if HEAD.unpack_from(r)[0] != RUN] for records in (merged, whole)]
    assert others[0] == others[1]
    assert HEAD.unpack_from(merged[-1])[3] == len(merged) - 1
    for received, expected in zip(tables_in(tmp_path / "merged"), tables_in(tmp_path / "whole"), strict=True):
        assert received.tobytes() == expected.tobytes()


def test_changed_rows_have_the_ids_of_the_whole_table(tmp_path):
    ids, parts = np.array([0, 2, 3, 7, 8, 10]), [tmp_path / str(index) for index in range(3)]
    for index, part in enumerate(parts):
        own = ids[ids % 3 == index]
        changed = Changed(own // 3, np.repeat(np.float32(own)[:, None], 2, 1), 0, 1)
        write_update(part, "", Moment(step=9), [changed], [], [], ["float32"], Shard(index, 3))
    merge_weights(parts, tmp_path / "merged", "a", Moment(9, 4))
    found = {}
    for record in list(records_in(tmp_path / "merged"))[1:-1]:
        count = HEAD.unpack_from(record)[3]
        keys = np.frombuffer(record, np.int64, count, HEAD.size)
        found |= dict(
            zip(keys.tolist(), np.frombuffer(record, np.float32, offset=HEAD.size + 8 * count).reshape(count, 2).tolist())
        )
    assert found == {each: [each, each] for each in ids.tolist()}


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    def part(index, step=9, rows=10):
        path = tmp_path / f"{index}-{step}-{rows}"
        write_weights(path, "", Moment(step), [np.ones((rows, 2), np.float32)], [], [], ["float32"], Shard(index, 2))
        return path

    first = part(0)
    for second, said in ((part(1, step=8), "are of one step"), (part(1, rows=8), "in turn; of table 0 they have \\[10, 8\\]")):
        with pytest.raises(CtrlabError, match=said):
            merge_weights([first, second], tmp_path / "merged", "a", MOMENT)
    cut = part(1, rows=9)
    whole = cut.read_bytes()
    cut.write_bytes(whole[: -(HEAD.size + 16)])  # without its last record
    with pytest.raises(CtrlabError, match="has been cut"):
        merge_weights([first, cut], tmp_path / "merged", "a", MOMENT)
    cut.write_bytes(whole[:-7])
    with pytest.raises(OSError, match="Input/output error"):
        merge_weights([first, cut], tmp_path / "merged", "a", MOMENT)


def test_in_a_fraction_of_the_memory_that_the_rows_take(tmp_path):
    def few_addresses_for_threads():
        """The limit counts addresses, of which each thread would reserve 8 MB for its stack, used or not."""
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}  # else each thread reserves 64 MB more
    command = [sys.executable, PROGRAM, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, env=one_arena, preexec_fn=few_addresses_for_threads)
    assert ran.returncode == 0, ran.stderr[-3_000:]
