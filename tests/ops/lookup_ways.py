"""Columns, tables, layouts and all ways of looking up, for the tests of lookups."""

import numpy as np
import tensorflow as tf

from ctrlab.ops import lookup
from ctrlab.ops.lookup import Layout


def in_rows(tables, columns, lay):
    """The lookup in rows that a step has fetched: here all of a table's."""
    return lookup.in_rows([tf.convert_to_tensor(table) for table in tables], columns, lay)


IMPLEMENTATIONS = lookup.OP.ways | {"in_rows": in_rows}


def bag(*rows):
    return tf.ragged.constant(rows, dtype=tf.int64, row_splits_dtype=tf.int64)


def ids(*values):
    return tf.constant(values, tf.int64)


def table(rows, dim, seed=0):
    return tf.Variable(np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32))


def layout(*columns, unknown=True):
    """A layout from one (table, combiner, output) per column; `unknown`: any id may be -1."""
    return Layout(*map(tuple, zip(*columns)), unknown=frozenset(range(len(columns))) if unknown else frozenset())
