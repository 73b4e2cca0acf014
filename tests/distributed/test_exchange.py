"""Parts of the exchange that need no other worker."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ctrlab.distributed import collectives, exchange
from ctrlab.embedding.initial_values import hash_keys


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_owners_are_the_shards_of_a_table(keys):
    keys = np.array(keys, np.int64)
    np.testing.assert_array_equal(exchange._hash(tf.constant(keys)).numpy(), hash_keys(keys))


@given(st.integers(0, 2**30))
def test_a_size_is_rounded_up_by_an_eighth_at_the_most(size):
    found, number = collectives.padded(tf.constant(size))
    assert collectives.SIZES[int(number)] == int(found)
    assert size <= int(found) <= max(1, -(-9 * size // 8))


def test_keys_of_ops_do_not_meet():
    assert len(collectives.SIZES) <= collectives.KEYS_OF_OP
    assert collectives.BACKWARD % collectives.KEYS_OF_OP == 0 and 2 * collectives.BACKWARD == collectives.KEYS_OF_PROGRAM
