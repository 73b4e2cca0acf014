"""Requests in which candidates share users get the answers of whole rows: of every model, in every form, alone and in batches."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import TOLERANCE, first, probabilities
from shared_requests import per_user, shared
from wire_requests import (
    answer_of,
    answer_of_infer,
    answer_of_infer_json,
    by_columns,
    by_lists,
    by_rows,
    infer_json,
    infer_request,
)

from ctrlab import data, models, serving
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.graph import answers
from ctrlab.serving.processor import Code, Processor, Refused

COUNTS = {
    "a user": [7],
    "a candidate": [1],
    "many": [200],
    "several users": [3, 0, 37, 1],
    "one each": [1] * 5,
    "no candidate": [0, 0],
    "no user": [],
}


# With stock ops, models of 38 columns take ten seconds each: of them two are tried with every commit.
SLOW = {("wdl", "none"), ("wdl", "stock"), ("deepfm", "stock"), ("dlrm", "none")}
MODELS = [
    pytest.param(name, rungs, marks=pytest.mark.long if (name, rungs) in SLOW else ())
    for name in DATA_SETS
    for rungs in ("none", "stock", "all")
]


@pytest.mark.parametrize("name, rungs", MODELS)
def test_the_answers_are_those_to_whole_rows(trained, tmp_path, name, rungs):
    model, features = trained(name, optimizations=rungs)
    folder = serving.export_model(model, tmp_path / "ctr", rows=[first(features, 5)], share_users=True)
    columns = serving.read_manifest(folder).inputs
    chosen = COUNTS if rungs == "all" else ("several users", "no candidate")  # the stock ways of some models take a second each
    cases = [shared(features, columns, COUNTS[name]) for name in chosen]
    requests = [inputs.to_tensors(once, columns, model) for once, _ in cases]
    for found, (_, spread) in zip(list(answers(folder, requests)), cases):
        expected = probabilities(model, spread)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("embedding", ["multihash", "variable"])
@pytest.mark.parametrize("name", ["deepfm", "dien"])
def test_other_tables_of_any_sizes_and_ids_answer_alike(trained, tmp_path, name, embedding):
    model, features = trained(name, optimizations="all", embedding=embedding, size="small", batch_norm=True)
    folder = serving.export_model(model, tmp_path / "ctr", inputs="ids", share_users=True)
    columns = serving.read_manifest(folder).inputs
    once, spread = shared(features, columns, [3, 0, 20])
    [found] = answers(folder, [inputs.to_tensors(once, columns, model)])
    np.testing.assert_allclose(found, probabilities(model, spread), rtol=0, atol=TOLERANCE)


def test_users_without_a_history_answer_alike(trained, tmp_path):
    for name in ("din", "dien"):
        model, features = trained(name, optimizations="all")
        folder = serving.export_model(model, tmp_path / name, share_users=True)
        columns = serving.read_manifest(folder).inputs
        lists = {column: feature for column, feature in features.items() if column.startswith("history")}
        empty = {c: tf.concat([feature[:1], feature[:2][:, :0], feature[3:]], axis=0) for c, feature in lists.items()}
        for counts in ([4, 2, 3, 1], [0, 5]):
            once, spread = shared(features | empty, columns, counts)
            [found] = answers(folder, [inputs.to_tensors(once, columns, model)])
            np.testing.assert_allclose(found, probabilities(model, spread), rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def din(trained, tmp_path_factory):
    """A folder of DIN with users shared, the model, a batch, and its columns."""
    model, features = trained("din", optimizations="all")
    out = tmp_path_factory.mktemp("models") / "ctr"
    folder = serving.export_model(model, out, rows=[first(features, 5)], share_users=True)
    return out, model, features, serving.read_manifest(folder).inputs


def ask(processor, tensors):
    return answer_of(processor.process(warm_up.predict_request("ctr", tensors), "predict").data)[0]


def test_every_form_of_a_request_is_answered(din):
    out, model, features, columns = din
    once, spread = shared(features, columns, [5, 0, 4])
    tensors, expected = inputs.to_tensors(once, columns, model), probabilities(model, spread)
    body, header = infer_json(tensors, True)
    with Processor(out, poll_seconds=0) as processor:
        assert set(processor.info()["per_user"]) == per_user(columns) > {"user", "history_items"}
        for found in (
            ask(processor, tensors),
            json.loads(processor.process(by_columns(tensors), "json").data)["outputs"],
            json.loads(processor.process(json.dumps({"inputs": by_lists(tensors)}).encode(), "json").data)["outputs"],
            answer_of_infer(processor.process(infer_request(tensors), "infer").data),
            answer_of_infer(processor.process(infer_request(tensors, of_raw=False), "infer").data),
            answer_of_infer_json(processor.process(infer_json(tensors, False)[0], "infer_json")),
            answer_of_infer_json(processor.process(body, "infer_json", header)),
        ):
            np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=TOLERANCE)


def test_a_request_of_whole_rows_is_answered_as_before(din):
    out, model, features, columns = din
    batch = first(features, 6)
    tensors, expected = inputs.to_tensors(batch, columns, model), probabilities(model, batch)
    assert tensors.pop("candidates").numpy().tolist() == [1] * 6
    with Processor(out, poll_seconds=0) as processor:
        for found in (
            ask(processor, tensors),
            json.loads(processor.process(by_columns(tensors), "json").data)["outputs"],
            json.loads(processor.process(by_rows(tensors), "json").data)["predictions"],
            answer_of_infer(processor.process(infer_request(tensors), "infer").data),
        ):
            np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=TOLERANCE)
        parsed = processor.parse(by_rows(tensors), "json")
        assert parsed["candidates"].to_pylist() == [1] * 6
        row = {name: values[0] for name, values in by_lists(tensors).items()}
        with pytest.raises(Refused, match="candidates is none of them"):
            processor.process(json.dumps({"instances": [row | {"candidates": 1}]}).encode(), "json")


BIG = (1 << 63) - 1
ODD = {
    "too few": ({"candidates": [5, 2]}, r"add up to the rows of candidates; they are fewer than the 9 rows of \w+"),
    "too many": ({"candidates": [5, 7]}, "they are more than the 9 rows"),
    "more than 64 bits": ({"candidates": [BIG, BIG]}, "they are more than the 9 rows"),
    "below 0": ({"candidates": [10, -1]}, "0 candidates or more; received -1 for user 1"),
    "for a user that is none": ({"candidates": [5, 4, 0]}, r"a number for each user; received 3 numbers and 2 rows of \w+"),
    "for no user": ({"candidates": []}, r"received 0 numbers and 2 rows of \w+"),
    "other users": ({"user": ["a"]}, r"Columns of users have one number of rows; \w+ has \d and user has 1"),
    "other candidates": ({"category": ["a"]}, r"Columns of candidates have one number of rows; \w+ has \d and \w+ has \d"),
    "no splits": ({"history_items/row_splits": []}, "Row splits begin with 0; those of history_items are empty"),
    "none": ({"candidates": None}, r"without candidates has one candidate per user; received 2 rows of \w+ and 9 of \w+"),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_does_not_add_up_is_refused_in_a_sentence(din, odd):
    out, model, features, columns = din
    once, _ = shared(features, columns, [5, 4])
    right = inputs.to_tensors(once, columns, model)
    changed, sentence = ODD[odd]
    wrong = {name: tensor for name, tensor in right.items() if changed.get(name, 0) is not None}
    wrong |= {name: tf.constant(values, right[name].dtype) for name, values in changed.items() if values is not None}
    with Processor(out, poll_seconds=0) as processor:
        for request, form in (
            (warm_up.predict_request("ctr", wrong), "predict"),
            (by_columns(wrong), "json"),
            (infer_request(wrong), "infer"),
            (infer_json(wrong, False)[0], "infer_json"),
        ):
            with pytest.raises(Refused, match=sentence) as refused:
                processor.process(request, form)
            assert refused.value.code == Code.INVALID and "\n" not in str(refused.value)
        assert ask(processor, right).shape == (9, 1)


@pytest.mark.parametrize("rungs", ["stock", "all"])
@pytest.mark.parametrize("odd", [{"candidates": [5, 2]}, {"candidates": [10, -1]}, {"candidates": [5, 4, 0]}])
def test_a_graph_without_a_processor_refuses_it_too(trained, tmp_path, rungs, odd):
    model, features = trained("din", optimizations=rungs)
    folder = serving.export_model(model, tmp_path / "ctr", share_users=True)
    columns = serving.read_manifest(folder).inputs
    right = inputs.to_tensors(shared(features, columns, [5, 4])[0], columns, model)
    wrong = right | {name: tf.constant(values, tf.int64) for name, values in odd.items()}
    with pytest.raises(CtrlabError, match=r"number of candidates, 0 or more, .*add up"):
        list(answers(folder, [wrong]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.integers(0, 12), max_size=6), seed=st.integers(0, 99))
def test_any_numbers_of_candidates(processor_of_din, counts, seed):
    processor, model, features, columns = processor_of_din
    once, spread = shared(features, columns, counts, seed)
    found = ask(processor, inputs.to_tensors(once, columns, model))
    np.testing.assert_allclose(found, probabilities(model, spread), rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def processor_of_din(din):
    out, *others = din
    with Processor(out, poll_seconds=0) as processor:
        yield processor, *others


def test_requests_of_several_users_are_one_batch(din):
    out, model, features, columns = din
    cases = [shared(features, columns, counts, seed) for seed, counts in enumerate([[5], [1, 2], [1, 1, 1], [0, 3], [9], [50]])]
    whole = first(features, 3)
    requests = [(inputs.to_tensors(once, columns, model), probabilities(model, spread)) for once, spread in cases]
    requests.append(({k: v for k, v in inputs.to_tensors(whole, columns, model).items() if k != "candidates"},
                     probabilities(model, whole)))  # fmt: skip
    wrong = requests[0][0] | {"candidates": tf.constant([6], tf.int64)}
    with Processor(out, batch_rows=40, batch_wait_micros=20_000, poll_seconds=0) as processor, ThreadPoolExecutor(8) as pool:

        def check(request):
            tensors, expected = request
            if expected is None:
                with pytest.raises(Refused, match="more than the 5 rows"):
                    ask(processor, tensors)
            else:
                np.testing.assert_allclose(ask(processor, tensors), expected, rtol=0, atol=TOLERANCE)

        list(pool.map(check, [*requests, (wrong, None)] * 6))
        assert processor.info()["batches"] > 0


def test_warm_up_requests_have_one_user(din):
    out, model, features, columns = din
    manifest = serving.read_manifest(out / "1")
    batch = first(features, 5)
    spread = batch | {name: tf.repeat(batch[name][:1], 5, axis=0) for name in per_user(columns) if "history" not in name}
    spread |= {name: tf.gather(batch[name], [0] * 5) for name in per_user(columns) if "history" in name}
    np.testing.assert_allclose(manifest.warm_up[0], probabilities(model, spread), rtol=0, atol=TOLERANCE)
    assert {each.column: each.role for each in manifest.inputs} == {
        "user": "user", "item": "candidate", "category": "candidate", "history_items": "user", "history_categories": "user",
        "candidates": "count",
    }  # fmt: skip
    assert serving.verify(out / "1").inputs == columns


def test_a_schema_of_one_kind_of_columns_is_refused(tmp_path):
    item, age = Categorical("item", buckets=9), Numeric("age")
    for columns, roles, sentence in (
        ((item, age), {}, "none that is a column of the user or the context: name them in user_columns"),
        ((item, age), {"user_columns": ("item", "age")}, "none that is a column of a candidate: take"),
        ((item, age, Categorical("candidates", buckets=9)), {"user_columns": ("age",)}, "a column of that name"),
    ):
        model = models.build("wdl", Schema("own", (Label("y"), *columns), **roles))
        with pytest.raises(CtrlabError, match=sentence):
            serving.export_model(model, tmp_path / "ctr", share_users=True)
        assert not (tmp_path / "ctr").exists()
        serving.export_model(model, tmp_path / model.schema.name)
    # A column of that name is like any other where users are not shared.


def test_an_own_model_is_refused(tmp_path):
    import keras

    model = keras.Sequential([keras.Input((1,), name="x"), keras.layers.Dense(1)])
    with pytest.raises(CtrlabError, match="without a schema: export it without share_users"):
        serving.export_model(model, tmp_path / "ctr", share_users=True)


@pytest.mark.parametrize("events", [10, 50, 100])
@pytest.mark.parametrize("name", ["din", "dien"])
def test_what_goes_over_the_wire(name, events):
    """200 candidates of a user with so many events: 20 times fewer bytes from 50 events on."""
    schema = data.schema(DATA_SETS[name])
    model = models.build(name, schema.with_buckets(100))
    text = {c.name: tf.constant([f"B{k:09d}" for k in range(200)]) for c in schema.categoricals}
    lists = {c.name: tf.RaggedTensor.from_row_splits([f"B{k:09d}" for k in range(events)] * 200, np.arange(201) * events)
             for c in schema.histories}  # fmt: skip
    columns = inputs.inputs_of(model, "text", share_users=True)
    once = inputs.of_one_user(text | lists, columns)
    whole = {name: tensor for name, tensor in inputs.to_tensors(text | lists, columns, model).items() if name != "candidates"}
    sizes = [len(warm_up.predict_request("ctr", each)) for each in (whole, inputs.to_tensors(once, columns, model))]
    assert sizes[0] > (20 if events >= 50 else 4) * sizes[1]
