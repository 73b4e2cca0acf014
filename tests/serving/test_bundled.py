"""An export with compiled ops: the answers are the model's, its weights are read once, and damage is refused in a sentence."""

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE, first, probabilities, served
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab import models, serving, training
from ctrlab.embedding import Options, Storage, embedding_variables
from ctrlab.embedding.choices import QuotientRemainder, Variable
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs
from ctrlab.serving.bundled import WEIGHTS
from ctrlab.serving.weights import Moment, write_weights

ROWS = (0, 1, 7, 64)
SOME = {"item_id": "variable"}  # of DLRM's tables


def agree(folder, model, features, tolerance=TOLERANCE):
    answer = served(folder, model)
    for rows in ROWS:
        batch = first(features, rows)
        found, expected = answer(batch), probabilities(model, batch)
        assert found.shape == (rows, len(model.tasks)) == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["text", "ids"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_served_probabilities_are_the_models(trained, tmp_path, name, kind):
    model, features = trained(name, optimizations="all")
    agree(serving.export_model(model, tmp_path / "ctr", inputs=kind), model, features)


@pytest.mark.parametrize("embedding", [Variable(), QuotientRemainder(rows=100)], ids=["variable", "multihash"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_those_of_other_embeddings_too(trained, tmp_path, name, embedding):
    """The batch's second half has keys without rows."""
    model, features = trained(name, embedding, few_columns=True, optimizations="lookup")
    agree(serving.export_model(model, tmp_path / "ctr"), model, features)


def with_storage(path):
    return Variable(Options(storage=Storage(str(path), memory_rows=20)))


@pytest.mark.parametrize("memory_rows", [None, 3])
def test_rows_below_the_memory_are_served(trained, tmp_path, monkeypatch, memory_rows):
    """The rows come from the export's own folder; the training's folder may be gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    model, features = trained("dlrm", optimizations="all", embedding=with_storage(tmp_path / "rows"))
    sizes = [table.rows() for table in embedding_variables(model)]
    assert max(sizes) > 20
    folder = serving.export_model(model, tmp_path / "ctr", memory_rows=memory_rows)
    agree(folder, model, features)
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    [opened] = [node for node in graph.node if node.op == "Ctrlab>ServingOpen"]
    assert set(opened.attr["memory_rows"].list.i) == {0, memory_rows or 20}  # 0: of fixed tables
    [own] = [place for place in tmp_path.iterdir() if place.name.startswith("ctrlab-serving-")]
    assert own.stat().st_mode & 0o077 == 0


def test_a_memory_for_rows_can_be_asked_of_a_table_without_storage(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    model, features = trained("dlrm", optimizations="all", embedding=Variable())
    agree(serving.export_model(model, tmp_path / "ctr", memory_rows=5), model, features)


def test_a_checkpoint_of_tables_with_storage_is_exported(small_batches, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    schema, batches = small_batches("criteo")
    model = models.build("dlrm", schema, "all", embedding={"C1": with_storage(tmp_path / "rows")})
    optimizer = training.make_optimizer(model)
    step = training.train_step(model, optimizer)
    with training.Checkpoints(tmp_path / "run", model, optimizer, every=4) as checkpoints:
        for number, batch in enumerate(batches[:4], 1):
            step(*batch)
            checkpoints(number, 0.0)
    folder = serving.export(tmp_path / "run", tmp_path / "ctr")
    agree(folder, model, batches[0][0])
    assert not list(tmp_path.glob("ctrlab-export-*"))


def test_towers_in_bfloat16_change_answers_a_little(trained, tmp_path):
    model, features = trained("dlrm", optimizations="all,bf16")
    folder = serving.export_model(model, tmp_path / "ctr")
    agree(folder, model, features, tolerance=1e-3)  # those of the same model, whose products round in another order
    exact, _ = trained("dlrm", optimizations="all")
    for ours, theirs in zip(exact.weights, model.weights):
        if ours.dtype != "string":
            ours.assign(theirs)
    off = abs(served(folder, model)(features) - probabilities(exact, features)).max()
    assert 1e-6 < off < 1e-2


def test_nothing_of_weights_alone_is_computed_in_a_call(trained, tmp_path):
    """The normalization is in the weights of the next layer, and the cast to bfloat16 is done."""
    model, _ = trained("deepfm", optimizations="all,bf16")
    folder = serving.export_model(model, tmp_path / "ctr", inputs="ids")
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    ops = [node.op for node in graph.node]
    checked = ("Assert", "IsFinite", "All", "Minimum", "Maximum")  # numbers of a request
    assert "Rsqrt" not in ops and sum(op not in ("Const", "Placeholder", "Cast", *checked) for op in ops) < 40
    assert ops.count("Ctrlab>ServingTables") == ops.count("Ctrlab>ServingDense") == ops.count("Ctrlab>ServingOpen") == 1
    names = {node.name: node for node in graph.node}
    for cast in (node for node in graph.node if node.op == "Cast"):
        assert names[cast.input[0].partition(":")[0]].op != "Ctrlab>ServingDense"


@pytest.fixture(scope="module")
def dlrm(trained, tmp_path_factory):
    """A version of DLRM with a fixed and a growing table, its model and a batch."""
    model, features = trained("dlrm", optimizations="all", embedding=SOME)
    out = tmp_path_factory.mktemp("models") / "ctr"
    return serving.export_model(model, out, rows=[first(features, 3)]), model, features


LOADS = """
import ctrlab, sys, numpy as np, tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
given = np.load(sys.argv[2])
found = serve(**{name.replace("|", "/"): tf.constant(given[name]) for name in given})["probabilities"]
assert "ctrlab.models" not in sys.modules
np.save(sys.argv[3], found.numpy())
"""


def test_a_fresh_python_answers_alike(dlrm, tmp_path):
    folder, model, features = dlrm
    request = inputs.to_tensors(features, serving.read_manifest(folder).inputs, model)
    arrays = {name.replace("/", "|"): tensor.numpy() for name, tensor in request.items()}
    np.savez(tmp_path / "request.npz", **{n: a.astype("S") if a.dtype == object else a for n, a in arrays.items()})
    elsewhere = tmp_path / "moved"
    subprocess.run(["cp", "-r", folder, elsewhere], check=True)
    subprocess.run([sys.executable, "-c", LOADS, elsewhere, tmp_path / "request.npz", tmp_path / "found.npy"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), probabilities(model, features), rtol=0, atol=TOLERANCE)


class Session:
    """A session of a version's graph, as servers have it."""

    def __init__(self, folder):
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        self.meta, self.folder = saved.meta_graphs[0], folder
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(self.meta.graph_def, name="")
        self.session = tf.compat.v1.Session(graph=graph)

    def open(self, weights=None):
        [asset] = self.meta.asset_file_def
        path = str(weights or self.folder / "assets" / asset.filename)
        self.session.run("open", {asset.tensor_info.name: path})

    def answer(self, request):
        signature = self.meta.signature_def["serving_default"]
        feed = {signature.inputs[name].name: tensor.numpy() for name, tensor in request.items()}
        return self.session.run(signature.outputs["probabilities"].name, feed)


@pytest.fixture
def fresh(dlrm, tmp_path):
    """A version with the weights of `dlrm`'s under a bundle of its own, and a request."""
    _, model, features = dlrm
    folder = serving.export_model(model, tmp_path / "fresh")
    return folder, inputs.to_tensors(features, serving.read_manifest(folder).inputs, model), probabilities(model, features)


def test_all_sessions_read_one_copy(fresh):
    """The second opens without the file; with the last session the weights go, and the file is needed again."""
    folder, request, expected = fresh
    sessions = [Session(folder) for _ in range(3)]
    with pytest.raises(tf.errors.FailedPreconditionError, match="run the SavedModel's initializer first"):
        sessions[0].answer(request)
    sessions[0].open()
    weights = folder / "assets" / WEIGHTS
    weights.rename(folder / "elsewhere")
    for session in sessions[1:]:
        session.open()
    for session in sessions:
        np.testing.assert_allclose(session.answer(request), expected, rtol=0, atol=TOLERANCE)
        session.session.close()
    del sessions, session
    again = Session(folder)
    with pytest.raises(tf.errors.FailedPreconditionError, match="No such file"):
        again.open()
    (folder / "elsewhere").rename(weights)
    again.open()
    np.testing.assert_allclose(again.answer(request), expected, rtol=0, atol=TOLERANCE)


def test_sessions_open_and_answer_in_many_threads(fresh):
    folder, request, expected = fresh

    def work(_):
        for _ in range(5):
            session = Session(folder)
            session.open()
            np.testing.assert_allclose(session.answer(request), expected, rtol=0, atol=TOLERANCE)
            session.session.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_training_that_goes_on_changes_nothing(trained, tmp_path):
    model, features = trained("dlrm", optimizations="all", embedding=SOME)
    folder, before = serving.export_model(model, tmp_path / "ctr"), probabilities(model, features)
    answer = served(folder, model)
    step = training.train_step(model, training.make_optimizer(model))
    step(features, np.ones((64, 1), "float32"))
    np.testing.assert_allclose(answer(features), before, rtol=0, atol=TOLERANCE)


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def records(data):
    """The records of a TFRecord file, with their framing."""
    found, at = [], 0
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at : at + 8], "little")
        found.append(data[at:end])
        at = end
    return found


DAMAGE = {
    "empty": lambda data: b"",
    "cut in a record": lambda data: data[:-5],
    "cut between records": lambda data: b"".join(records(data)[:-1]),
    "a flipped length": lambda data: flip(data, 0),
    "a flipped number": lambda data: flip(data, len(data) // 2),
    "a flipped last byte": lambda data: flip(data, len(data) - 1),
    "a record twice": lambda data: b"".join([*records(data)[:2], *records(data)[1:]]),
    "a record less": lambda data: b"".join([*records(data)[:3], *records(data)[4:]]),
    "something behind": lambda data: data + records(data)[0],
    "another file": lambda data: b"PAR1" * 100,
}  # fmt: skip


@pytest.mark.parametrize("harm", DAMAGE)
def test_damaged_weights_are_refused_and_the_right_ones_taken_then(fresh, tmp_path, harm):
    folder, request, expected = fresh
    damaged = tmp_path / "damaged"
    damaged.write_bytes(DAMAGE[harm]((folder / "assets" / WEIGHTS).read_bytes()))
    session = Session(folder)
    with pytest.raises(tf.errors.FailedPreconditionError, match=str(damaged)):
        session.open(damaged)
    with pytest.raises(tf.errors.FailedPreconditionError, match="are not"):
        session.answer(request)
    session.open()
    np.testing.assert_allclose(session.answer(request), expected, rtol=0, atol=TOLERANCE)


def test_weights_of_another_model_are_refused(fresh, trained, tmp_path):
    folder, _, _ = fresh
    for name, embedding in (("dlrm", None), ("wdl", None), ("dlrm", Variable())):
        model, _ = trained(name, optimizations="all", embedding=embedding)
        other = serving.export_model(model, tmp_path / "other")
        with pytest.raises(tf.errors.FailedPreconditionError, match="export the model again"):
            Session(folder).open(other / "assets" / WEIGHTS)


@pytest.mark.parametrize(
    ("splits", "values"),
    [([0, 2, 1, 3], 3), ([1, 2, 3, 3], 3), ([0, 1, 2, 9], 3), ([0, 1, 1, 2], 3), ([], 0), ([-1, 0, 0, 0], 0)],
)
@pytest.mark.parametrize("kind", ["text", "ids"])
@pytest.mark.parametrize("name", ["din", "wdl", "mmoe"])
def test_row_splits_that_are_none_are_refused(trained, tmp_path_factory, name, kind, splits, values):
    """Only that call fails; the next one is answered."""
    folder = tmp_path_factory.getbasetemp() / f"ragged-{name}-{kind}"
    model, features = trained(name, optimizations="all")
    if not folder.exists():
        serving.export_model(model, folder, inputs=kind)
    columns = serving.read_manifest(folder / "1").inputs
    ragged = [each.column for each in columns if each.ragged]
    if not ragged:
        pytest.skip(f"{name} has no lists")
    signature = tf.saved_model.load(str(folder / "1")).signatures["serving_default"]
    right = inputs.to_tensors(first(features, 3), columns, model)
    for column in ragged:
        dtype = right[f"{column}/values"].dtype
        wrong = {f"{column}/values": tf.zeros([values], dtype) if dtype != tf.string else tf.fill([values], "a")}
        wrong[f"{column}/row_splits"] = tf.constant(splits, tf.int64)
        with pytest.raises(tf.errors.InvalidArgumentError):
            signature(**right | wrong)
    assert signature(**right)["probabilities"].shape == (3, len(model.tasks))


def test_a_full_disk_is_one_sentence(dlrm, tmp_path, monkeypatch):
    with pytest.raises(OSError) as refused:
        write_weights("/dev/full", "a bundle", Moment(), [], [], [np.zeros(1 << 20, "f4")], [])
    assert refused.value.errno == errno.ENOSPC and "/dev/full" in str(refused.value)

    _, model, _ = dlrm
    monkeypatch.setattr("ctrlab.serving.bundled.write_weights", lambda path, *of: write_weights("/dev/full", *of))
    with pytest.raises(CtrlabError, match=r"could not be written .*earlier"):
        serving.export_model(model, tmp_path / "ctr")
    assert list((tmp_path / "ctr").iterdir()) == []


@pytest.mark.parametrize("place", ["link", "file"])
def test_another_ones_folder_for_rows_is_not_used(trained, tmp_path, monkeypatch, place):
    (tmp_path / "tmp").mkdir()
    mine = tmp_path / "tmp" / f"ctrlab-serving-{os.geteuid()}"
    mine.symlink_to(tmp_path) if place == "link" else mine.write_text("")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    model, _ = trained("dlrm", optimizations="all", embedding=SOME)
    folder = serving.export_model(model, tmp_path / "ctr")
    assert folder.name == "1"
    with pytest.raises(CtrlabError, match="folder of this user"):
        serving.export_model(model, tmp_path / "ctr", memory_rows=2, rows=[])
    assert [version.name for version in (tmp_path / "ctr").glob("[!.]*")] == ["1"]


def test_the_manifest_knows_the_weights(dlrm):
    folder, _, _ = dlrm
    found = serving.verify(folder)
    assert f"assets/{WEIGHTS}" in found.files and set(found.optimizations) > {"lookup", "parsing"}
    plain = json.loads((folder / "ctrlab.json").read_text())
    assert plain["files"][f"assets/{WEIGHTS}"]["bytes"] == (folder / "assets" / WEIGHTS).stat().st_size
