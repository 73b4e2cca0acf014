"""Ids outside their table: one sentence with the column, the range and what was received; from a file also where."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from ctrlab import data, models, training
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, MultiHot, Schema

PLAIN = Schema("plain", (Label("y"), Categorical("place", encoding="identity", buckets=20), Categorical("word", buckets=50)))
WORDS = {"encoding": "vocabulary", "vocabulary": ("a", "b")}
FILES = Schema(
    "files",
    (
        Label("y"),
        Categorical("place", encoding="identity", buckets=20, default="0"),
        MultiHot("places", encoding="identity", buckets=20),
        Categorical("word", buckets=50, encoded=True),
        Categorical("known", encoded=True, **WORDS),
    ),
)
ROWS = {"y": [0, 1] * 8, "place": [0, 19] * 8, "places": [[3, 0], []] * 8, "word": [0, 49] * 8, "known": [-1, 1] * 8}
BAD = {
    "place": (25, r"\'place\' must lie in \[0, 20\)"),
    "places": ([1, 2, 20], r"\'places\' must lie in \[0, 20\)"),
    "word": (-1, r"\'word\' must lie in \[0, 50\)"),
    "known": (2, r"\'known\' must lie in \[-1, 2\)"),
}


def write_unchecked(rows: dict, path) -> None:
    """Writes rows as programs of others do, which know no tables."""
    others = {"encoding": "vocabulary", "vocabulary": tuple(map(str, range(100))), "encoded": True}
    columns = [dataclasses.replace(c, **others, **{"default": ""} if hasattr(c, "default") else {}) for c in FILES.id_columns]
    data.write(rows, dataclasses.replace(FILES, columns=(Label("y"), *columns)), path, progress=False)
    if path.suffix == ".parquet":
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


@pytest.mark.parametrize("format", data.FORMATS)
def test_an_id_of_a_file(tmp_path, format):
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    data.write(ROWS, FILES, path, progress=False)
    assert len(list(data.read(path, FILES, batch_size=4))) == 4
    for column, (value, rule) in BAD.items():
        rows = ROWS | {column: [*ROWS[column][:6], value, *ROWS[column][7:]]}
        with pytest.raises(BadData, match=rf"Table for rows.*{rule}; row 6, counted from 0, has"):
            data.write(rows, FILES, path, progress=False)
        write_unchecked(rows, path)
        received = {"csv": "line 7: .*received", "parquet": "row 6, counted from 0, has"}.get(
            format, "record 7, counted from 1: .*received"
        )
        with pytest.raises(BadData, match=rule) as caught, data.explained():
            list(data.read(path, FILES, batch_size=4))
        assert str(path) in str(caught.value) and len(str(caught.value).splitlines()) == 1
        number = value[-1] if isinstance(value, list) else value
        with pytest.raises(BadData, match=rf"{received} '?{number}'?[.]"), data.explained():
            list(data.read(path, FILES, batch_size=4))


def test_an_id_in_a_later_row_group(tmp_path):
    rows = ROWS | {"places": [*ROWS["places"][:12], [1, 7, 99], *ROWS["places"][13:]]}
    write_unchecked(rows, tmp_path / "a.parquet")
    pq.write_table(pq.read_table(tmp_path / "a.parquet"), tmp_path / "b.parquet", row_group_size=5)
    with pytest.raises(BadData, match=r"b[.]parquet: .*row 12, counted from 0, has 99"):
        data.read(tmp_path / "b.parquet", FILES, batch_size=4)
    pq.write_table(pq.read_table(tmp_path / "a.parquet"), tmp_path / "c.parquet", write_statistics=False)
    list(data.read(tmp_path / "c.parquet", FILES, batch_size=4))


def batches(schema, column, value):
    features = {"place": np.arange(16), "word": np.array([f"w{i}" for i in range(16)])}
    if schema["word"].encoded:
        features = {"place": np.arange(16, dtype=np.int32), "word": np.arange(16, dtype=np.int32)}
    features[column] = features[column].astype("U3") if isinstance(value, str) else features[column]
    features[column][9] = value
    return tf.data.Dataset.from_tensors(({name: tf.constant(values) for name, values in features.items()}, tf.zeros([16, 1])))


@pytest.mark.parametrize("optimizations", ["none", "all"])
@pytest.mark.parametrize(
    ("schema", "column", "value", "said"),
    [
        (PLAIN, "place", 25, r"column '?place'? must be whole numbers in \[0, 20\); received 25"),
        (PLAIN, "place", -2, r"column '?place'? must be whole numbers in \[0, 20\); received -2"),
        (PLAIN, "place", "x", r"column '?place'? must be whole numbers in \[0, 20\); received '?x'?"),
        (PLAIN.encoded(), "word", 55, r"in \[0, 50\); received 55"),
    ],
)
def test_an_id_in_memory(optimizations, schema, column, value, said):
    model = training.compile_model(models.build("wdl", schema, optimizations, size="small"))
    given = batches(schema, column, value)
    for eagerly in (False, True):
        model.run_eagerly, model.train_function = eagerly, None
        with pytest.raises(BadData, match=said) as caught:
            model.fit(given, verbose=0)
        assert len(str(caught.value).splitlines()) == 1 and "Op:" not in str(caught.value)
    with pytest.raises(BadData, match=said):
        training.train(model, training.make_optimizer(model), given)
