"""Fixtures that tests share: TensorFlow's quiet start, the real samples if they exist, small batches, and kills that must be
survived.
"""

import os
import re
import signal
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CTRLAB_PROFILE", "tiny")

import pytest

from tests import forked
from tests.few_columns import few

# A job in the background is started with Ctrl-C ignored, and so would be the processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real samples, or a skip that says how to have them."""
    folder = os.environ.get("CTRLAB_REAL_DATA")
    if not folder:
        pytest.skip("CTRLAB_REAL_DATA is not set: point it at the folder of real samples to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def small_batches(tmp_path_factory):
    """`small_batches(data set)` -> (its schema with small tables, eight batches of 64 generated rows)."""
    from ctrlab import data

    made = {}

    def of(name: str):
        if name not in made:
            schema = data.schema(name).with_buckets(500)
            tables = list(data.generate(name, rows=8 * 64, seed=3))
            path = tmp_path_factory.mktemp(name) / "rows.parquet"
            data.write(tables, schema, path, "parquet", progress=False)
            made[name] = schema, list(data.read(path, schema, batch_size=64))
        return made[name]

    return of


@pytest.fixture(scope="session")
def few_batches(small_batches):
    """`few_batches(data set)` -> what `small_batches` gives, with some columns of each kind."""

    def of(name: str):
        schema, batches = small_batches(name)
        schema = few(schema)
        names = [column.name for column in schema.features]
        return schema, [({name: features[name] for name in names}, labels) for features, labels in batches]

    return of


@pytest.fixture
def survives_ten_kills(tmp_path):
    """`survives_ten_kills(program, seed)`: runs a `program` that kills a training again and again and looks at what is left."""

    def check(program: Path, seed: int):
        ran = forked.run([sys.executable, program, tmp_path, "10", str(seed)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert re.match("survived 10 kills", ran.stdout)
        print(ran.stdout)

    return check
