"""A gate sees an op that ignores one of its weights, however little the loss moves; and what only rounds it lets through."""

import dataclasses
import functools
import re

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.lessons import course, gate, notebook, places
from ctrlab.lessons.check import CheckFailed
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.ops import attention, batch_norm, dot_interaction, experts, gru, indicator, lookup, pointwise
from ctrlab.ops.parsing import ids, numbers
from ctrlab.training import equality, get_state

# Model, rung, the module of the op that the rung replaces, and what it is called there.
REPLACED = [
    ("deepfm", "indicator", indicator, "OP"),
    ("din", "attention", attention, "OP"),
    ("dien", "gru", gru, "OP"),
    ("dien", "augru", gru, "AUGRU"),
    ("dlrm", "subgraphs", batch_norm, "OP"),
    ("mmoe", "experts", experts, "OP"),
    ("din", "all", pointwise, "OP"),
]
named = pytest.mark.parametrize("name, rung, module, op", REPLACED, ids=[rung for _, rung, *_ in REPLACED])


@pytest.fixture(scope="module")
def baseline(few_batches):
    """`baseline(model)` -> the model without rungs, made and traced once: a gate gives each model its weights back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality, "answers", functools.cache(equality.answers))
        yield functools.cache(lambda name: build(name, few_batches(DATA_SETS[name])[0]))


def weights_of(arguments) -> list[int]:
    """The places, in the flat arguments of an op, of float matrices and vectors that are trained."""
    flat = tf.nest.flatten(arguments)
    return [k for k, a in enumerate(flat) if getattr(a, "trainable", False)]


def ignoring(fused, which: int, seen: list):
    """`fused` with zeros for one of its weights: the first (0) or the last (-1)."""

    def op(*arguments, **options):
        flat, places = tf.nest.flatten(arguments), weights_of(arguments)
        seen.append(len(places))
        flat[places[which]] = tf.zeros_like(tf.convert_to_tensor(flat[places[which]]))
        return fused(*tf.nest.pack_sequence_as(arguments, flat), **options)

    return op


@named
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_an_op_that_ignores_a_weight_is_refused(few_batches, baseline, monkeypatch, name, rung, module, op, which):
    schema, batches = few_batches(DATA_SETS[name])
    seen = []
    right = getattr(module, op)
    monkeypatch.setattr(module, op, dataclasses.replace(right, fused=ignoring(right.fused, which, seen)))
    wrong = build(name, schema, rung)
    with pytest.raises(CheckFailed, match="same gradients") as refused:
        gate.same_answers({"none": baseline(name), rung: wrong}, batches[0])
    assert max(seen) > 0 and "use each of its weights" in refused.value.next_step


def one_column_less(columns: list) -> list:
    """The columns, the first of which says the same in every example."""
    first = columns[0]
    if isinstance(first, tf.RaggedTensor):
        return [first.with_values(tf.repeat(first.values[:1], tf.shape(first.values))), *columns[1:]]
    return [tf.repeat(first[:1], tf.shape(first)[0], axis=0), *columns[1:]]


# Rung, the module of an op that has no weights, and how a wrong one ignores an input.
IGNORES = {
    "lookup": (lookup, lambda right: lambda tables, columns, layout: right(tables, one_column_less(columns), layout)),
    "parsing, ids": (ids, lambda right: lambda asked, columns: right(asked, one_column_less(columns))),
    "parsing, numbers": (numbers, lambda right: lambda asked, columns: right(asked, one_column_less(columns))),
    "interaction, bottom": (
        dot_interaction,
        lambda right: lambda bottom, fields, dim: right(tf.zeros_like(bottom), fields, dim),
    ),
    "interaction, one field": (
        dot_interaction,
        lambda right: (
            lambda bottom, fields, dim: right(bottom, fields * tf.repeat([0.0, 1.0], [dim, fields.shape[1] - dim]), dim)
        ),
    ),
}


@pytest.mark.parametrize("case", IGNORES)
def test_an_op_that_ignores_an_input_is_refused(few_batches, baseline, monkeypatch, case):
    schema, batches = few_batches(DATA_SETS["dlrm"])
    module, wrong = IGNORES[case]
    monkeypatch.setattr(module, "OP", dataclasses.replace(module.OP, fused=wrong(module.OP.fused)))
    rung = case.partition(",")[0]
    with pytest.raises(CheckFailed, match="same gradients"):
        gate.same_answers({"none": baseline("dlrm"), rung: build("dlrm", schema, rung)}, batches[0])


def test_the_gates_that_compare_models_are_all_tried():
    tried = {rung for _, rung, *_ in REPLACED} | {case.partition(",")[0] for case in IGNORES}
    compared = set()
    for entry in course.lessons():
        for cell in notebook.read(places.lesson_path(entry.name)).cells:
            if models := re.search(r"lab\.gate\(\s*\{([^}]*)\}", cell.source):
                compared |= set(re.split(r"[\",]+", re.findall(r'"([^"]+)":', models[1])[-1]))
    assert compared and compared <= tried


@named
def test_the_right_op_passes_and_all_keep_their_weights(few_batches, baseline, name, rung, module, op):
    schema, batches = few_batches(DATA_SETS[name])
    models = {"none": baseline(name), rung: build(name, schema, rung)}
    before = {n: get_state(model) for n, model in models.items()}
    assert gate.same_answers(models, batches[0]) >= 2 + len(models["none"].trainable_variables)
    for n, model in models.items():
        assert all((value == before[n][key]).all() for key, value in get_state(model).items())


def test_nothing_is_held_to_answers_that_are_no_numbers(few_batches):
    schema, batches = few_batches(DATA_SETS["deepfm"])
    baseline, fast = build("deepfm", schema), build("deepfm", schema, "indicator")
    baseline.trainable_variables[0].assign(tf.fill(baseline.trainable_variables[0].shape, np.nan))
    with pytest.raises(CtrlabError, match=r"the baseline's .* numbers that are not"):
        gate.same_answers({"none": baseline, "indicator": fast}, batches[0])


def test_a_model_that_raises_keeps_its_weights(few_batches, baseline, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("broken")

    schema, batches = few_batches(DATA_SETS["deepfm"])
    monkeypatch.setattr(indicator, "OP", dataclasses.replace(indicator.OP, fused=broken))
    fast = build("deepfm", schema, "indicator")
    for v in fast.trainable_variables:
        v.assign(v + 1.0)
    before = get_state(fast)
    with pytest.raises(RuntimeError, match="broken"):
        gate.same_answers({"none": baseline("deepfm"), "indicator": fast}, batches[0])
    assert all((value == before[key]).all() for key, value in get_state(fast).items())


def test_one_model_is_held_to_nothing():
    with pytest.raises(CtrlabError, match="at least two; 1 was given"):
        gate.same_answers({"none": None}, (0, 0))


@pytest.mark.parametrize(
    "losses, received",
    [
        ({"none": [], "fast": []}, "0 steps of 'none', 0 steps of 'fast'"),
        ({"none": [0.5], "fast": np.zeros(0)}, "0 steps of 'fast'"),
        ({"none": [0.5]}, "1 steps of 'none'"),
    ],
)
def test_no_losses_agree_with_nothing(losses, received):
    with pytest.raises(CheckFailed, match=received):
        gate.largest_difference(losses, 1e-5)
