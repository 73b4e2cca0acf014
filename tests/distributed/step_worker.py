"""A worker of `test_equal_steps`: takes one step of each case on its part of the batch, and writes the loss and its state."""

import json
import sys
from pathlib import Path

import numpy as np
from equal_steps import flat, part, put, read_cases, unflat

from ctrlab.distributed import join


def main(folder: Path, shares: list[int]) -> None:
    workers = join()
    workers.connect()
    import tensorflow as tf

    from ctrlab import data
    from ctrlab.training import get_state, train_step

    for case in read_cases(folder):
        with workers.building():
            model, optimizer = case.build()
        workers.rows_as = tf.as_dtype(case.rows_as)
        step = train_step(model, optimizer, workers)
        with np.load(folder / f"{case.name}.npz") as arrays:
            put(unflat(dict(arrays)), model, optimizer, workers.shard)
        *_, batch = data.read(folder / f"{case.model}.parquet", model.input_schema, batch_size=sum(shares))
        loss = step(*part(batch, shares, workers.shard.index))
        state = flat(get_state(model, optimizer))
        np.savez(folder / f"{case.name}.{workers.shard.index}-of-{workers.shard.count}.npz", loss=loss.numpy(), **state)
        model.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
