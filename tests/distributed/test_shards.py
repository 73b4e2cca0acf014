"""A worker's shard of a model, without the others."""

import keras
import numpy as np
import pytest

from ctrlab import data, whole_batch
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.models.shards import BLOCK, RowsOf
from ctrlab.serving.bundled import Bundled
from ctrlab.serving.inputs import inputs_of
from ctrlab.training import compile_model
from ctrlab.whole_batch import Shard


@pytest.mark.parametrize(("rows", "dim"), [(1, 3), (7, 1), (2 * BLOCK + 5, 6)])
@pytest.mark.parametrize("seed", [0, 2_021_007, 2**31 - 2, 3 * 10**9 + 17, 2**33 + 5])
def test_initial_rows_are_those_of_the_whole_table(rows, dim, seed):
    whole = np.asarray(keras.initializers.RandomNormal(stddev=0.05, seed=seed)((rows, dim)))
    for count in (1, 2, 5):
        for index in range(count):
            shard = Shard(index, count)
            drawn = RowsOf(rows, shard, 0.05, seed)((shard.rows(rows), dim)).numpy()
            np.testing.assert_array_equal(drawn, whole[index::count])


def test_a_model_of_several_workers_is_built_of_the_rows_of_one():
    schema = data.schema("food_delivery").with_buckets(100)
    whole = build("dlrm", schema)
    with whole_batch.sharded(Shard(1, 3)):
        part = build("dlrm", schema)
    apart = [w for w in part.trainable_weights if whole_batch.is_sharded(w)]
    assert {w.path for w in apart} == {w.path for w in part.trainable_weights if w.path.startswith("embedding/")} != set()
    for weight, like in zip(part.trainable_weights, whole.trainable_weights):
        value = like.numpy()[1::3] if whole_batch.is_sharded(weight) else like.numpy()
        np.testing.assert_array_equal(weight.numpy(), value)


@pytest.mark.parametrize("name", ["wdl", "deepfm", "din"])
def test_its_graph_for_servers_is_that_of_the_whole_model(name):
    schema = data.schema(DATA_SETS[name]).with_buckets(100)
    growing = next(column.table for column in schema.id_columns if column.encoding == "hash")
    options = {"optimizations": "all", "embedding": {growing: "variable"}}
    models = [build(name, schema, **options)]
    with whole_batch.sharded(Shard(1, 3)):
        models.append(build(name, schema, **options))
    whole, part = (Bundled(model, inputs_of(model, "text")).saved_model("a") for model in models)
    assert whole == part


@pytest.mark.parametrize("embedding", ["hashed", "variable"])
def test_it_can_not_be_trained_alone(embedding, small_batches):
    schema, batches = small_batches("food_delivery")
    with whole_batch.sharded(Shard(0, 2)):
        model = compile_model(build("dlrm", schema, "all", embedding=embedding))
    with pytest.raises(CtrlabError, match="all of them call it together; received a call of worker 0 of 2 alone: train and eval"):
        model.fit(*batches[0], batch_size=64)
    with pytest.raises(CtrlabError, match="with `Run`"):
        model(batches[0][0])
