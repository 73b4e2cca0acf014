"""Right answers that are built in other ways than the lesson's solutions."""

import numpy as np
from right_answers import passing

from ctrlab.embedding.initial_values import GOLDEN, mix


def initial_in_float64(keys, seed, limit, dim):
    start = mix(np.uint64(seed) + GOLDEN * np.ones(1, np.uint64))
    stream = mix(keys.astype(np.uint64) + start)
    numbers = np.arange(1, dim + 1).astype(np.uint64)[None, :] * GOLDEN
    u = (mix(stream[:, None] + numbers) >> np.uint64(40)).astype(np.float64) / 2**24
    return (u * np.float64(np.float32(2 * limit)) - limit).astype(np.float32)


def initial_column_by_column(keys, seed, limit, dim):
    stream = mix(keys.view(np.uint64) + mix(np.array([seed], np.uint64) + GOLDEN))
    width = np.float64(np.float32(2 * limit))
    columns = [(mix(stream + np.uint64(d) * GOLDEN) >> np.uint64(40)) * 2.0**-24 for d in range(1, dim + 1)]
    return np.stack([-limit + width * u for u in columns], axis=1).astype(np.float32)


def initial_by_outer_sum(keys, seed, limit, dim):
    stream = mix(np.add(keys.view(np.uint64), mix(np.full(1, seed, np.uint64) + GOLDEN)))
    bits = mix(np.add.outer(stream, np.multiply(np.arange(1, dim + 1, dtype=np.uint64), GOLDEN)))
    u = np.ldexp((bits >> np.uint64(40)).astype(np.float64), -24)
    return np.float32(u * float(np.float32(2 * limit)) - limit)


ANSWERS = {
    2: [initial_in_float64, initial_column_by_column, initial_by_outer_sum],
}
test_another_right_answer_passes = passing("03_embedding/02_embedding_variable", ANSWERS)
