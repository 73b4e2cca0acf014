"""A stock export: the same answers from any TensorFlow, whole versions only, and a manifest that notices damage."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import fields as fields_of
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import TOLERANCE, first, probabilities, served

from ctrlab import data, models, serving, training
from ctrlab.embedding.formats.tensor_file import write_tensors
from ctrlab.errors import BadData, CtrlabError, UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.models.saving import from_description
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.manifest import NAME, UNSEALED, read_manifest, sealed
from ctrlab.serving.versions import LAST, LEFTOVER, new_version, versions
from tests import forked

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def small(trained, tmp_path_factory):
    """A version of DLRM, its model and a batch."""
    model, features = trained("dlrm", optimizations="stock")
    out = tmp_path_factory.mktemp("models") / "ctr"
    return serving.export_model(model, out, rows=[first(features, 3), first(features, 1)]), model, features


@pytest.mark.parametrize("kind", ["text", pytest.param("ids", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_served_probabilities_are_the_models(trained, tmp_path, name, kind):
    model, features = trained(name, optimizations="stock" if kind == "text" else "none")
    folder = serving.export_model(model, tmp_path / "ctr", inputs=kind)
    answer = served(folder, model)
    for rows in (0, 1, 7, 64):
        batch = first(features, rows)
        found, expected = answer(batch), probabilities(model, batch)
        assert found.shape == (rows, len(model.tasks)) == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    assert {column.dtype for column in read_manifest(folder).inputs if column.encoding} <= (
        {"string", "int64"} if kind == "text" else {"int32", "int64"}
    )


@pytest.mark.parametrize("rungs", [pytest.param("none", marks=pytest.mark.long), "all"])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("name", DATA_SETS)
def test_a_model_of_any_sizes_answers_alike(trained, tmp_path, name, normalized, rungs):
    model, features = trained(name, optimizations=rungs, size="small", dropout=0.5, l2=1e-3, batch_norm=normalized)
    folder = serving.export_model(model, tmp_path / "ctr", rows=[first(features, 2)])
    np.testing.assert_allclose(served(folder, model)(features), probabilities(model, features), rtol=0, atol=TOLERANCE)
    described = from_description(read_manifest(folder).model)
    assert described.sizes == model.sizes


def test_compressed_tables_answer_alike(small_batches, tmp_path):
    schema, batches = small_batches("criteo")
    model = models.build("dlrm", schema, "stock", embedding={"C1": "multihash", "C2": "multihash"})
    features = batches[0][0]
    for kind in ("text", "ids"):
        folder = serving.export_model(model, tmp_path / kind, inputs=kind)
        found = served(folder, model)(features)
        np.testing.assert_allclose(found, probabilities(model, features), rtol=0, atol=TOLERANCE)


def test_ids_are_those_of_encoded_files(tmp_path):
    """A request of ids holds what `ctrlab.data.encode` writes of the same rows."""
    schema = data.schema("amazon_reviews").with_buckets(500)
    tables = list(data.generate("amazon_reviews", rows=20, seed=1))
    data.write(tables, schema, tmp_path / "raw.parquet", "parquet", progress=False)
    data.write(data.encode(tables, schema), schema.encoded(), tmp_path / "ids.parquet", "parquet", progress=False)
    [(raw, _)] = data.read(tmp_path / "raw.parquet", schema, batch_size=20)
    [(encoded, _)] = data.read(tmp_path / "ids.parquet", schema.encoded(), batch_size=20)
    model = models.build("dien", schema, "stock")
    columns = inputs.inputs_of(model, "ids")
    expected = model.encoder.ids(raw)
    for features in (raw, encoded):
        request = inputs.to_tensors(features, columns, model)
        assert request["item"].dtype == request["history_items/values"].dtype == tf.int32
        found = model.encoder.ids(inputs.to_features(request, columns))
        for name, ids in expected.items():
            assert tf.reduce_all(ids == found[name]), name


def test_it_loads_where_the_package_is_not(small, tmp_path):
    folder, model, features = small
    columns = read_manifest(folder).inputs
    request = {name: tensor.numpy() for name, tensor in inputs.to_tensors(features, columns, model).items()}
    np.savez(
        tmp_path / "request.npz",
        **{name.replace("/", "|"): value.astype("S") if value.dtype == object else value for name, value in request.items()},
    )
    code = (
        "import sys, numpy as np, tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "given = np.load(sys.argv[2])\n"
        "found = serve(**{name.replace('|', '/'): tf.constant(given[name]) for name in given})['probabilities']\n"
        "assert not any(name.startswith('ctrlab') for name in sys.modules)\n"
        "np.save(sys.argv[3], found.numpy())\n"
    )
    out = tmp_path / "found.npy"
    subprocess.run([sys.executable, "-P", "-c", code, folder, tmp_path / "request.npz", out], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(out), probabilities(model, features), rtol=0, atol=TOLERANCE)


def test_it_has_one_signature_and_no_training_op(small):
    folder, _, _ = small
    shown = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "saved_model_cli"), "show", "--dir", folder, "--all"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.count("signature_def[") == 1 and "outputs['probabilities']" in shown and "/row_splits'" in shown
    graph = tf.saved_model.load(str(folder)).graph.as_graph_def()
    ops = {node.op for node in graph.node} | {node.op for function in graph.library.function for node in function.node_def}
    odd = {op for op in ops if op.startswith(("Ctrlab", "Var", "Resource", "Save", "Restore", "Assign"))}
    assert odd == set()


def test_the_manifest_says_where_it_comes_from(trained, small_batches, tmp_path):
    schema, batches = small_batches("criteo")
    model = models.build("dlrm", schema)
    optimizer = training.make_optimizer(model)
    step = training.train_step(model, optimizer)
    with training.Checkpoints(tmp_path / "run", model, optimizer, every=2, run={"seed": "2021"}) as checkpoints:
        for number, batch in enumerate(batches[:4], 1):
            step(*batch)
            checkpoints(number, 0.0)
    rows = [first(batches[0][0], 5)]
    folder = serving.export(tmp_path / "run", tmp_path / "ctr", optimizations="stock", rows=rows)
    assert folder == tmp_path / "ctr" / "1"
    found = serving.verify(folder)
    assert (found.step, found.position, found.trained) == (4, 4, {"seed": "2021"})
    assert found.model["kind"] == "dlrm" and found.tasks == ("label",) and found.optimizations == ("stock",)
    assert found.versions["tensorflow"] == tf.__version__
    expected = probabilities(model, rows[0])
    np.testing.assert_allclose(np.array(found.warm_up), [expected], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(served(folder, model)(rows[0]), expected, rtol=0, atol=TOLERANCE)
    c1 = next(column for column in found.inputs if column.column == "C1")
    assert (c1.dtype, c1.encoding, c1.buckets, c1.ragged) == ("string", "hash", 500, False)


def varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        n, shift, at = n | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return n, at


def fields(data):
    """(number, content) of the fields of a message, all of length-delimited type."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2
        length, at = varint(data, at)
        yield tag >> 3, data[at : at + length]
        at += length


def test_warm_up_requests_are_prediction_logs(small):
    folder, model, features = small
    records = [r.numpy() for r in tf.data.TFRecordDataset(str(folder / warm_up.PLACE))]
    assert len(records) == 2
    for record, rows in zip(records, (3, 1)):
        [(six, log)] = fields(record)
        [(one, request)] = fields(log)
        assert (six, one) == (6, 1)
        (_, spec), *entries = fields(request)
        assert dict(fields(spec)) == {1: b"ctr", 3: b"serving_default"}
        found = {}
        for number, entry in entries:
            pair = dict(fields(entry))
            proto = tf.make_tensor_proto(0)
            proto.ParseFromString(pair[2])
            found[pair[1].decode()] = tf.make_ndarray(proto)
            assert number == 2
        expected = inputs.to_tensors(first(features, rows), read_manifest(folder).inputs, model)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("splits", "values"),
    [([0, 2, 1, 3], 3), ([1, 2, 3, 3], 3), ([0, 1, 2, 9], 3), ([0, 1, 1, 2], 3), ([], 0), ([-1, 0, 0, 0], 0)],
)
def test_row_splits_that_are_none_are_refused(small, splits, values):
    """Only that call fails; the next one is answered."""
    folder, model, features = small
    columns = read_manifest(folder).inputs
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    right = inputs.to_tensors(first(features, 3), columns, model)
    column = next(each.column for each in columns if each.ragged)
    dtype = right[f"{column}/values"].dtype
    wrong = {f"{column}/values": tf.zeros([values], dtype) if dtype != tf.string else tf.fill([values], "a")}
    wrong[f"{column}/row_splits"] = tf.constant(splits, tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError):
        signature(**right | wrong)
    assert signature(**right)["probabilities"].shape == (3, 1)


def test_what_a_stock_export_can_not_hold_is_refused(small_batches, tmp_path, monkeypatch):
    schema, _ = small_batches("criteo")
    with pytest.raises(CtrlabError, match="dlrm has 1, such as C1"):
        serving.export_model(models.build("dlrm", schema, embedding={"C1": "variable"}), tmp_path / "ctr")
    monkeypatch.setattr("ctrlab.serving.frozen.MOST_BYTES", 1000)
    with pytest.raises(CtrlabError, match=r"at most 0\.0 GB"):
        serving.export_model(models.build("dlrm", schema), tmp_path / "ctr")
    assert not (tmp_path / "ctr").exists()


def test_rows_and_answers_that_no_server_could_use_are_refused(trained, tmp_path, monkeypatch):
    model, features = trained("din")
    right = first(features, 2)
    without = {name: feature for name, feature in right.items() if name != "item"}
    unsplit = right | {"history_items": tf.constant(["a;b", ""])}
    listed = right | {"item": right["history_items"]}
    for rows, sentence in ((without, "item is missing"), (unsplit, "history_items is no ragged"), (listed, "item is ragged")):
        with pytest.raises(CtrlabError, match=sentence):
            serving.export_model(model, tmp_path / "ctr", rows=[rows])
    model.weights[-1].assign(np.full(model.weights[-1].shape, np.nan))
    with pytest.raises(CtrlabError, match="finite weights"):
        serving.export_model(model, tmp_path / "ctr")
    monkeypatch.setattr("ctrlab.serving.frozen.finite", lambda values, where: values)  # as where finite weights overflow
    with pytest.raises(CtrlabError, match=r"finite.*din .*request 1"):
        serving.export_model(model, tmp_path / "ctr", rows=[first(features, 0), right])
    assert versions(tmp_path / "ctr") == [] and list((tmp_path / "ctr").iterdir()) == []


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawing waits where other tests run
@given(st.dictionaries(st.sampled_from([*(f.name for f in fields_of(serving.Manifest)), "more"]), anything))
def test_any_other_manifest_is_bad_data(tmp_path_factory, plain):
    """Whatever JSON it is: one kind of error, never another."""
    folder = tmp_path_factory.mktemp("version")
    (folder / NAME).write_text(json.dumps(plain | {"format": 1}))
    with pytest.raises(BadData):
        read_manifest(folder)


def test_a_checkpoint_that_does_not_describe_its_model_is_refused(tmp_path):
    from ctrlab.embedding.formats.saves import Save

    save = Save.full(1, 1, {})
    write_tensors(tmp_path / save.name, {"a": np.zeros(1, "f4")}, save.to_metadata())
    with pytest.raises(CtrlabError, match="says how the model is made"):
        serving.export(tmp_path, tmp_path / "ctr")
    with pytest.raises(BadData):
        serving.export(tmp_path / "nowhere", tmp_path / "ctr")


@pytest.mark.parametrize(
    "harm", ["flip", "cut", "remove", "add", "manifest", "format", "unsealed", "manifest's flip", "not json"]
)
def test_damage_is_noticed(trained, tmp_path, harm):
    model, _ = trained("mmoe")
    folder = serving.export_model(model, tmp_path / "ctr")
    serving.verify(folder)
    graph, manifest = folder / "saved_model.pb", folder / NAME
    data = graph.read_bytes()
    if harm == "flip":
        graph.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif harm == "cut":
        graph.write_bytes(data[:-1])
    elif harm == "remove":
        graph.unlink()
    elif harm == "add":
        (folder / "more").write_text("")
    elif harm == "manifest":
        manifest.unlink()
    elif harm == "format":
        manifest.write_text(sealed({"format": 3}))
    elif harm == "unsealed":
        found = json.loads(manifest.read_text())
        del found["sha256"]
        manifest.write_text(json.dumps(found))
    elif harm == "manifest's flip":
        manifest.write_text(manifest.read_text().replace('"step": 0', '"step": 1'))
    else:
        manifest.write_text("{")
    with pytest.raises(BadData, match=str(folder)):
        serving.verify(folder)


def test_a_manifest_from_before_manifests_had_checksums_is_read(trained, tmp_path):
    folder = serving.export_model(trained("mmoe")[0], tmp_path / "ctr")
    now = read_manifest(folder)
    (folder / NAME).write_text(json.dumps(replace(now, format=UNSEALED).to_json(), indent=1) + "\n")
    assert serving.verify(folder) == replace(now, format=UNSEALED)


def test_versions_count_up_and_are_never_overwritten(tmp_path):
    out = tmp_path / "ctr"
    assert versions(out) == []
    for expected in (1, 2):
        with new_version(out) as (number, folder):
            (folder / "a").write_text("x")
        assert number == expected
    with new_version(out, 9) as (number, folder):
        (folder / "a").write_text("x")
    (out / "07").mkdir()
    (out / "notes").mkdir()
    (out / "12").write_text("a file")
    (out / "9999999999999999999").mkdir()  # above 2^63
    assert versions(out) == [1, 2, 9]
    with pytest.raises(CtrlabError, match="12"):
        versions(out / "12")
    with pytest.raises(CtrlabError, match="never overwritten"), new_version(out, 9):
        raise AssertionError("the block ran")
    with pytest.raises(CtrlabError, match=r"in \[1, 2\^63\)"), new_version(out, 0):
        raise AssertionError("the block ran")
    with pytest.raises(KeyError), new_version(out) as (_, folder):
        (folder / "a").write_text("half")
        raise KeyError
    with new_version(out), pytest.raises(CtrlabError, match="in use"), new_version(out):
        raise AssertionError("two at once")
    assert versions(out) == [1, 2, 9, 13] and not list(out.glob(f"{LEFTOVER}*"))


@pytest.mark.parametrize("refused", ["mkdir", "rename", "fsync"])
def test_a_disk_that_refuses_leaves_nothing(tmp_path, monkeypatch, refused):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "ctr"
    with new_version(out):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(f"pathlib.Path.{refused}" if refused == "mkdir" else f"os.{refused}", full)
        refusal = pytest.raises(CtrlabError, match=r"could not be written to .*: No space left on device; earlier ones are")
        with refusal, new_version(out) as (_, folder):
            (folder / "a").write_text("x")
    assert versions(out) == [1] and not list(out.glob(f"{LEFTOVER}*"))


def test_a_killed_export_leaves_no_version(tmp_path):
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ctrlab.serving.versions import new_version\n"
        "with new_version(Path(sys.argv[1])) as (_, folder):\n"
        "    (folder / 'saved_model.pb').write_bytes(b'half')\n"
        f"    os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
    )
    out = tmp_path / "ctr"
    killed = forked.run([sys.executable, "-c", code, out], stderr=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL and versions(out) == [] and len(list(out.iterdir())) == 1
    with new_version(out) as (number, folder):
        (folder / "a").write_text("x")
    assert number == 1 and {path.name for path in out.iterdir()} == {"1", LAST}


def test_unknown_kinds_of_inputs_are_refused(trained, tmp_path):
    model, _ = trained("mmoe")
    with pytest.raises(UnknownName, match="inputs"):
        serving.export_model(model, tmp_path / "ctr", inputs="bytes")


def test_the_command(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from ctrlab import cli

    run, out = tmp_path / "run", tmp_path / "ctr"
    runner = CliRunner()
    found = runner.invoke(cli.app, ["train", "mmoe", "--profile", "tiny", "--checkpoint", str(run)])
    assert found.exit_code == 0, found.output
    found = runner.invoke(cli.app, ["export", str(run), "--out", str(out), "--profile", "tiny", "--inputs", "ids"])
    assert found.exit_code == 0, found.output
    assert "Version 1:" in found.output and "8 warm-up requests" in found.output
    assert len(serving.verify(out / "1").warm_up) == 8
    found = runner.invoke(cli.app, ["export", str(run), "--out", str(out), "--profile", "tiny", "--version", "1"])
    assert found.exit_code == 1 and "never overwritten" in found.output
