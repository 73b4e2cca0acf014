"""A gate sees an op that ignores one of its weights, however little the loss moves; and what only rounds it lets through."""

import dataclasses

import pytest
import tensorflow as tf

from ctrlab.lessons import gate
from ctrlab.lessons.check import CheckFailed
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.ops import attention, experts, gru, indicator, lookup
from ctrlab.training import get_state

# Model, rung, the op that the rung replaces.
REPLACED = [
    ("deepfm", "indicator", indicator),
    ("din", "attention", attention),
    ("dien", "gru", gru),
    ("mmoe", "experts", experts),
]
named = pytest.mark.parametrize("name, rung, module", REPLACED, ids=[rung for _, rung, _ in REPLACED])


def weights_of(arguments) -> list[int]:
    """The places, in the flat arguments of an op, of float matrices and vectors that are trained."""
    flat = tf.nest.flatten(arguments)
    return [k for k, a in enumerate(flat) if isinstance(a, tf.Variable) or hasattr(a, "trainable")]


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
def test_an_op_that_ignores_a_weight_is_refused(small_batches, monkeypatch, name, rung, module, which):
    schema, batches = small_batches(DATA_SETS[name])
    baseline, seen = build(name, schema), []
    monkeypatch.setattr(module, "OP", dataclasses.replace(module.OP, fused=ignoring(module.OP.fused, which, seen)))
    wrong = build(name, schema, rung)
    with pytest.raises(CheckFailed, match="same gradients") as refused:
        gate.same_answers({"none": baseline, rung: wrong}, batches[0])
    assert max(seen) > 0 and "use each of its weights" in refused.value.next_step


def test_a_lookup_that_ignores_a_column_is_refused(small_batches, monkeypatch):
    schema, batches = small_batches(DATA_SETS["dlrm"])
    own = lookup.OP.fused

    def wrong(tables, columns, layout):
        return own(tables, [tf.zeros_like(columns[0]), *columns[1:]], layout)

    monkeypatch.setattr(lookup, "OP", dataclasses.replace(lookup.OP, fused=wrong))
    with pytest.raises(CheckFailed, match="same gradients"):
        gate.same_answers({"none": build("dlrm", schema), "lookup": build("dlrm", schema, "lookup")}, batches[0])


@named
def test_the_right_op_passes_and_all_keep_their_weights(small_batches, name, rung, module):
    schema, batches = small_batches(DATA_SETS[name])
    models = {"none": build(name, schema), rung: build(name, schema, rung)}
    before = {n: get_state(model) for n, model in models.items()}
    assert gate.same_answers(models, batches[0]) >= 2 + len(models["none"].trainable_variables)
    for n, model in models.items():
        assert all((value == before[n][key]).all() for key, value in get_state(model).items())
