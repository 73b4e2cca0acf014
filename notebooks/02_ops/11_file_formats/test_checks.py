"""The checks of the file formats lesson against right answers and every kind of wrong one."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from solved import solved
from wrong_answers import judge

LESSON = "02_ops/11_file_formats"
columns_of, ragged = solved(LESSON, 1), solved(LESSON, 2)


def floor_of_groups(file, names):
    return list(columns_of(file, names))[:-1]


def all_columns(file, names):
    for group in range((parquet := pq.ParquetFile(file)).num_row_groups):
        table = parquet.read_row_group(group)
        yield {name: table[name].chunk(0).to_numpy() for name in names}


def copies(file, names):
    return [{n: a.copy() for n, a in entry.items()} for entry in columns_of(file, names)]


def one_piece(file, names):
    table = pq.read_table(file, columns=names)
    yield {name: table[name].to_numpy() for name in names}


def wrong_type(file, names):
    return [{n: a.astype(np.float64) for n, a in entry.items()} for entry in columns_of(file, names)]


def backwards(file, names):
    return list(columns_of(file, names))[::-1]


def nothing(file, names):
    return []


def by_objects(lists):
    return tf.RaggedTensor.from_row_splits(
        tf.constant([i for row in lists.to_pylist() for i in row or []], tf.int32),
        np.cumsum([0, *(len(row or []) for row in lists.to_pylist())]).astype(np.int64),
    )


def forgets_the_slice(lists):
    return tf.RaggedTensor.from_row_splits(lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64))


def narrow_splits(lists):
    return ragged(lists).with_row_splits_dtype(tf.int32)


def widened(lists):
    return tf.cast(ragged(lists), tf.int64)


def shifted(lists):
    return ragged(lists) + 1


def no_op(lists):
    return lists


def sorts(lists):
    return ragged(lists.take(pa.array(np.arange(len(lists))[::-1])))


WRONG_COLUMNS = [floor_of_groups, all_columns, copies, one_piece, wrong_type, backwards, nothing]
WRONG_RAGGED = [by_objects, forgets_the_slice, narrow_splits, widened, shifted, no_op, sorts]
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (columns_of, WRONG_COLUMNS), 2: (ragged, WRONG_RAGGED)}
)
