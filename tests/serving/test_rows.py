"""Rows for serving in bfloat16 and in 8 bits: the bound of their error, and answers with them, from every kind of table."""

import dataclasses
import json

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from served import TOLERANCE, first, probabilities, served, wait_for
from tensorflow.core.protobuf import saved_model_pb2
from trainers import Trainer, published
from wire_requests import by_columns

from ctrlab import serving
from ctrlab.embedding import Options, Storage, embedding_variables
from ctrlab.embedding.choices import QuotientRemainder, Variable
from ctrlab.errors import CtrlabError
from ctrlab.serving import weights
from ctrlab.serving.bundled import FORMATS, Bundled
from ctrlab.serving.export import levels
from ctrlab.serving.inputs import inputs_of, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.rows import pack, rounded, unpack, words

FLOATS = np.finfo(np.float32)
LARGEST = 2.0**100
WIDTHS = st.tuples(st.integers(0, 5), st.integers(1, 40))
ROWS = arrays.arrays(np.float32, WIDTHS, elements=st.floats(-LARGEST, LARGEST, width=32))


def reference(values):
    """float64 [n, D] -> scales [n] and numbers in steps of them, from the definition: the smallest float that is large enough."""
    scales = []
    for row in values:
        scale = np.float32(0)
        if (most := abs(row).max(initial=0)) > 0:
            scale = np.float32(most / 127)
            while np.float64(scale) * 127 < most:
                scale = np.nextafter(scale, np.float32(np.inf))
        scales.append(scale)
    scales = np.array(scales, np.float32)
    exact = values / np.where(scales == 0, 1, scales).astype(np.float64)[:, None]
    return scales, np.rint(exact)


@given(ROWS)
@settings(max_examples=300, deadline=None)
def test_rows_in_8_bits_are_those_of_the_definition(values):
    n, dim = values.shape
    packed = pack(values, "int8")
    assert packed.shape == (n, words("int8", dim)) and packed.dtype == np.float32
    scales, steps = reference(values.astype(np.float64))
    raw = packed.view(np.uint8).reshape(n, 4 * packed.shape[1])
    np.testing.assert_array_equal(raw[:, :4].copy().view("<f4").ravel(), scales)
    np.testing.assert_array_equal(raw[:, 4 : 4 + dim].copy().view(np.int8), steps)
    assert not raw[:, 4 + dim :].any(), "a row ends in zeros"
    assert abs(steps).max(initial=0) <= 127
    off = abs(scales.astype(np.float64)[:, None] * steps - values)
    assert (off <= scales.astype(np.float64)[:, None] / 2).all()
    np.testing.assert_allclose(unpack(packed, "int8", dim), scales[:, None] * steps, rtol=FLOATS.eps, atol=0)


@given(ROWS)
@settings(max_examples=300, deadline=None)
def test_rows_in_bfloat16_are_rounded_to_nearest_even(values):
    found = unpack(pack(values, "bf16"), "bf16", values.shape[1])
    expected = values.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@given(ROWS, st.integers(2, 8))
@settings(max_examples=200, deadline=None)
def test_rows_in_fewer_bits(values, bits):
    """Rounded rows have few values each, with errors of at most half a step; 8 bits give the packed rows."""
    found = rounded(values, bits)
    assert found.shape == values.shape and found.dtype == np.float32
    most = 2 ** (bits - 1) - 1
    step = abs(values).max(axis=1, initial=0).astype(np.float64)[:, None] / most
    assert (abs(found.astype(np.float64) - values) <= step / 2 * (1 + 1e-5) + FLOATS.smallest_subnormal).all()
    assert all(len(np.unique(row)) <= 2 * most + 1 for row in found)
    if bits == 8:
        np.testing.assert_array_equal(found, unpack(pack(values, "int8"), "int8", values.shape[1]))


@pytest.mark.parametrize("row", [[0.0, -0.0], [1e-45], [-3e-45, 1e-45], [1e-38, 1e30], [5.0, 5.0, 5.0], [-7.0]])
def test_odd_rows_in_8_bits(row):
    values = np.array([row], np.float32)
    packed = pack(values, "int8")
    assert (abs(unpack(packed, "int8", len(row)).astype(np.float64) - values) <= packed[:, :1] / 2 * (1 + 2e-7)).all()


def test_numbers_too_large_are_one_sentence():
    """In bfloat16 the largest float32 would become infinite; in 8 bits the largest step times its scale would."""
    largest = np.full((1, 3), FLOATS.max)
    for format in ("bf16", "int8"):
        with pytest.raises(CtrlabError, match=f"Rows in {format} hold numbers below"):
            pack(largest, format)
        fits = largest * np.float32(0.99)
        assert np.isfinite(unpack(pack(fits, format), format, 3)).all()


def with_storage(path):
    return Variable(Options(storage=Storage(str(path), memory_rows=20)))


EMBEDDINGS = ["hashed", Variable(), QuotientRemainder(rows=100), "storage"]


@pytest.mark.parametrize("rung", ["bf16_rows", "int8_rows"])
@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=["hashed", "variable", "multihash", "storage"])
@pytest.mark.parametrize("name", ["deepfm", "din"])
def test_the_served_answers_are_those_of_the_packed_rows(trained, tmp_path, monkeypatch, name, embedding, rung):
    """The model itself gets the rows that a server unpacks; then both give the same answers."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    embedding = with_storage(tmp_path / "rows") if embedding == "storage" else embedding
    model, features = trained(name, optimizations="all", embedding=embedding)
    exact = probabilities(model, features)
    folder = serving.export_model(model, tmp_path / "ctr", optimizations=rung)
    assert rung in serving.read_manifest(folder).optimizations
    format = FORMATS[rung]
    for table in Bundled(model, inputs_of(model, "text")).tables:
        if table.shape[1] > 1:
            table.assign(unpack(pack(table.numpy(), format), format, table.shape[1]))
    for table in embedding_variables(model):
        if table.dim > 1:
            state = table.state()
            table.load_state(dataclasses.replace(state, values=unpack(pack(state.values, format), format, table.dim)))
    answer = served(folder, model)
    for rows in (0, 1, 64):
        batch = first(features, rows)
        np.testing.assert_allclose(answer(batch), probabilities(model, batch), rtol=0, atol=2e-6)
    assert 0 < abs(answer(features) - exact).max() < 0.02


def weights_bytes(folder):
    return (folder / "assets" / "weights").stat().st_size


@pytest.mark.parametrize("rung", ["bf16_rows", "int8_rows"])
def test_the_weights_are_smaller_by_what_rows_need_less(trained, tmp_path, rung):
    model, _ = trained("dlrm", optimizations="all")
    whole, packed = (weights_bytes(serving.export_model(model, tmp_path / each, optimizations=each)) for each in ("none", rung))
    shapes = [table.shape for table in Bundled(model, inputs_of(model, "text")).tables]
    assert whole - packed == sum(4 * rows * (dim - words(FORMATS[rung], dim)) for rows, dim in shapes) > 0


def test_an_export_says_its_formats_and_the_last_rung_counts(trained, tmp_path):
    model, _ = trained("deepfm", optimizations="all")
    folder = serving.export_model(model, tmp_path / "ctr", optimizations="bf16_rows,int8_rows")
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    [opened] = [node for node in graph.node if node.op == "Ctrlab>ServingOpen"]
    dims, formats = opened.attr["table_dims"].list.i, opened.attr["row_formats"].list.s
    assert {format for dim, format in zip(dims, formats) if dim > 1} == {b"int8"}
    assert {format for dim, format in zip(dims, formats) if dim == 1} <= {b"float32"}


@pytest.mark.parametrize("embedding", ["hashed", Variable()], ids=["hashed", "variable"])
@pytest.mark.parametrize("rung", ["bf16_rows", "int8_rows"])
def test_updates_bring_packed_rows(small_batches, tmp_path, embedding, rung):
    """A server that followed the updates answers as one that loads an export of the same moment."""
    trainer, folder = Trainer(small_batches, "din", embedding), tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6, optimizations=rung) as publisher:
        for update in range(3):
            trainer.step()
            published(publisher)
            whole = serving.export_model(trainer.model, tmp_path / "whole", optimizations=rung)
            batch = first(trainer.batches[0][0], 50)
            request = by_columns(to_tensors(batch, inputs_of(trainer.model, "text"), trainer.model))
            with Processor(folder, poll_seconds=0) as processor:
                reply = processor.process(request, "json")
            assert (reply.version, reply.update) == (1, update)
            found, expected = json.loads(reply.data)["outputs"], served(whole, trainer.model)(batch)
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    plain = Trainer(small_batches, "din", embedding)
    with plain.publisher(tmp_path / "plain", every=1e6) as wide:
        for _ in range(3):
            plain.step()
            published(wide)
    assert publisher.published.rows == wide.published.rows and publisher.published.bytes < wide.published.bytes


@pytest.mark.parametrize("scale", [np.nan, -1.0])
@pytest.mark.parametrize("embedding", ["hashed", Variable()], ids=["hashed", "variable"])
def test_an_update_with_an_odd_scale_changes_nothing(small_batches, tmp_path, monkeypatch, embedding, scale):
    """The last scale in the file: a server that applied what it has read would answer with half of the update."""
    trainer, folder, written = Trainer(small_batches, "din", embedding), tmp_path / "ctr", []
    odd = None

    def packed(values, format):
        rows = pack(values, format)
        if format == "int8":
            written.append(rows)
            if len(written) == odd:
                rows[-1, 0] = scale
        return rows

    monkeypatch.setattr(weights, "pack", packed)
    with trainer.publisher(folder, every=1e6, optimizations="int8_rows") as publisher:
        trainer.step()
        published(publisher)
        with Processor(folder, poll_seconds=0.02) as processor:
            request = by_columns(to_tensors(first(trainer.batches[0][0], 50), inputs_of(trainer.model, "text"), trainer.model))
            written.clear()
            trainer.step()
            published(publisher)
            wait_for(lambda: processor.info()["update"] == 1)
            odd = len(written)
            written.clear()
            trainer.number = 1  # the same batch again: the same tables change
            trainer.step()
            before = json.loads(processor.process(request, "json").data)["outputs"]
            published(publisher)
            assert len(written) == odd
            wait_for(lambda: processor.info()["stopped"])
            assert "a row of int8 has a scale of at least 0" in processor.info()["stopped"]
            assert processor.info()["update"] == 1
            assert json.loads(processor.process(request, "json").data)["outputs"] == before


@pytest.mark.parametrize("rungs,said", [("none", "A stock export"), ("indicator", "rung 'lookup'")])
def test_rows_that_stock_ops_read_are_not_packed(trained, tmp_path, rungs, said):
    model, _ = trained("deepfm", optimizations=rungs)
    with pytest.raises(CtrlabError, match=said):
        serving.export_model(model, tmp_path / "ctr", optimizations="int8_rows")
    assert not (tmp_path / "ctr" / "1").exists()


def test_rungs_of_other_levels_are_refused(trained, tmp_path):
    model, _ = trained("deepfm", optimizations="all")
    with pytest.raises(CtrlabError, match="level 'input'"):
        serving.export_model(model, tmp_path / "ctr", optimizations="parquet")


def test_levels_are_told_apart():
    model, served = levels("all, int8_rows")
    assert served == ("int8_rows",) and "lookup" in model and "bf16" not in model
    assert levels("int8_rows") == ((), ("int8_rows",))
    model, served = levels("all+results")
    assert served == ("bf16_rows", "int8_rows") and "bf16" in model
    assert levels("none") == ((), ())
    for odd in ("stock,int8_rows", "all,parquet", "all,int8"):
        with pytest.raises(CtrlabError):
            levels(odd)
