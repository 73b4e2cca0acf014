"""A worker of `test_links`: says the least seconds that each kind of exchange takes."""

import json

import numpy as np

from ctrlab.distributed import join

TIMES = 6


def main() -> None:
    workers = join()
    workers.connect()
    count = workers.shard.count
    import tensorflow as tf

    from ctrlab.distributed import collectives
    from ctrlab.profiling.timing import timed

    kinds = {
        "summed": (lambda x: collectives.summed(x, count, 1 << 20), tf.ones([1000])),
        "exchanged": (lambda x: collectives.exchanged(x, 1 << 21), tf.ones([count, 500])),
        "gathered": (lambda x: workers.gathered(x)[1 - workers.shard.index], np.ones(1000)),
    }
    found = {}
    for name, (exchange, x) in kinds.items():
        assert np.all(np.asarray(exchange(x)) == (count if name == "summed" else 1))
        found[name] = min(timed(lambda call=exchange, x=x: np.asarray(call(x)))[0] for _ in range(TIMES))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
