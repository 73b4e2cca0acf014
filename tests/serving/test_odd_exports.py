"""Exports that are refused, and versions that refuse: weights that are not finite, full disks, odd numbers, wrong lists."""

import secrets
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE, first, probabilities

from ctrlab import _native, serving
from ctrlab.embedding.choices import Variable
from ctrlab.errors import CtrlabError
from ctrlab.serving import inputs
from ctrlab.serving.graph import answers
from ctrlab.serving.weights import Moment, write_weights


@pytest.fixture(scope="module")
def dlrm(trained):
    """(A model with embedding variables, a batch)."""
    return trained("dlrm", optimizations="all", embedding=Variable())


@pytest.mark.parametrize("optimizations", ["stock", "all"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_model_whose_training_diverged_is_not_exported(trained, tmp_path, optimizations, number):
    """One of its weights at a time, even where a ReLU hides it from the answers."""
    model, features = trained("deepfm", optimizations=optimizations)
    found = [weight for weight in model.weights if weight.dtype == "float32"]
    for weight in found[:: len(found) // 6]:
        before = weight.numpy()
        after = before.copy()
        after.reshape(-1)[-1] = number
        weight.assign(after)
        with pytest.raises(CtrlabError, match="finite"):
            serving.export_model(model, tmp_path / "ctr", rows=[first(features, 3)])
        weight.assign(before)
    assert list(tmp_path.rglob("[0-9]*")) == []


@pytest.fixture(scope="module", params=["lookup", "stock"])
def without_parsing(request, trained, tmp_path_factory):
    """(A model without the parsing op, a batch, its export)."""
    model, features = trained("dlrm", few_columns=True, optimizations=request.param)
    return model, features, serving.export_model(model, tmp_path_factory.mktemp("models") / "ctr")


@pytest.mark.parametrize("rows", [4, 5, 6])
def test_an_export_without_the_parsing_op_refuses_wrong_lists(without_parsing, rows):
    """The graph runs in a session, as in TensorFlow Serving and in the processor."""
    model, features, folder = without_parsing
    columns = serving.read_manifest(folder).inputs
    right = inputs.to_tensors(first(features, 5), columns, model)

    def refuses(changed):
        with pytest.raises(CtrlabError, match="it refused"):
            list(answers(folder, [right | changed]))

    lists = [each.column for each in columns if each.ragged]
    assert lists
    for column in lists[:3]:
        n = int(right[f"{column}/row_splits"][-1])
        wrong = {
            4: [[0, 0, 0, 0, n]],
            5: [[0, n, 0, n, n, n], [1, n, n, n, n, n], [0, 0, 0, 0, 0, n - 1]],
            6: [[0, 0, 0, 0, 0, 0, n]],
        }
        for splits in wrong[rows]:
            refuses({f"{column}/row_splits": tf.constant(splits, tf.int64)})
    refuses({columns[0].column: right[columns[0].column][:4]})
    [found] = answers(folder, [right])
    np.testing.assert_allclose(found, probabilities(model, first(features, 5)), rtol=0, atol=TOLERANCE)


def test_a_disk_that_fills_at_the_warm_up_file_is_one_sentence(dlrm, tmp_path, monkeypatch):
    model, features = dlrm
    monkeypatch.setattr("ctrlab.serving.warm_up.PLACE", Path("assets.extra/full"))
    made = Path.mkdir

    def fills(path, *options, **named):
        made(path, *options, **named)
        if path.name == "assets.extra":
            (path / "full").symlink_to("/dev/full")

    monkeypatch.setattr(Path, "mkdir", fills)
    rows = [first(features, 3)] * 400
    with pytest.raises(CtrlabError, match=r"could not be written .*earlier") as refused:
        serving.export_model(model, tmp_path / "ctr", rows=rows)
    assert "\n" not in str(refused.value) and list((tmp_path / "ctr").iterdir()) == []


@pytest.mark.parametrize("odd", [0, -1, 1.5, "3", 1 << 31])
def test_odd_memory_rows_are_refused(dlrm, tmp_path, odd):
    with pytest.raises(CtrlabError, match="memory_rows"):
        serving.export_model(dlrm[0], tmp_path / "ctr", memory_rows=odd)


@pytest.mark.parametrize(
    "odd",
    [
        {"dense_bytes": [2**63 - 1]},
        {"dense_bytes": [2**62] * 4},
        {"dense_bytes": [-1]},
        {"table_rows": [-5]},
        {"memory_rows": [-1]},
    ],
)
def test_a_graph_that_asks_for_what_can_t_be_is_refused(tmp_path, odd):
    shape = {"table_names": ["a"], "table_dims": [2], "table_rows": [-1], "memory_rows": [0], "dense_bytes": [4]} | odd
    name = secrets.token_hex(16)
    ours = tmp_path / "weights"
    write_weights(ours, name, Moment(), [], [], [np.zeros(1, "f4")], [])
    with pytest.raises(tf.errors.OpError, match=r"can't have|Dense tensors have"):
        _native.library().ops.ctrlab_serving_open(path=str(ours), bundle=name, **shape)


def test_saves_of_several_workers_are_merged_first(tmp_path):
    (tmp_path / "workers.json").write_text('{"saves": []}')
    with pytest.raises(CtrlabError, match=f"several workers.*`ctrlab checkpoints merge {tmp_path} "):
        serving.export(tmp_path, tmp_path / "ctr")
