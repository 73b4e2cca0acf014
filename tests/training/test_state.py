"""The state of a model, copied from one to others."""

import numpy as np
import pytest

from ctrlab import models
from ctrlab.errors import CtrlabError
from ctrlab.training import copy_state, get_state, make_optimizer, train_step


def trained(schema, batches, rungs, **options):
    model = models.build("dlrm", schema, rungs, **options)
    optimizer = make_optimizer(model)
    step = train_step(model, optimizer)
    for batch in batches:
        step(*batch)
    return model, optimizer, step


def alike(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_copied_state_is_the_same_and_then_its_own(small_batches):
    """Arrays are shared until a step: no step of one may be seen in another."""
    schema, batches = small_batches("criteo")
    source, *others = (trained(schema, batches[:n], rungs) for n, rungs in ((3, "none"), (1, "all"), (2, "lookup")))
    before = get_state(*source[:2])
    copy_state(source[:2], *(other[:2] for other in others))
    assert all(alike(before, get_state(*other[:2])) for other in others)
    for stepped in (*others, source):
        kept = {id(other): get_state(*other[:2]) for other in (source, *others)}
        stepped[2](*batches[4])
        for other in (source, *others):
            assert alike(kept[id(other)], get_state(*other[:2])) == (other is not stepped)


def test_embedding_variables_are_copied_too(small_batches):
    schema, batches = small_batches("criteo")
    source, other = (trained(schema, batches[:n], "lookup", embedding={"C1": "variable"}) for n in (3, 1))
    copy_state(source[:2], other[:2])
    (mine,), (copied,) = (list(model.embedding.growing.values()) for model, *_ in (source, other))
    expected, found = mine.state(), copied.state()
    order, places = np.argsort(expected.keys), np.argsort(found.keys)
    np.testing.assert_array_equal(expected.keys[order], found.keys[places])
    np.testing.assert_array_equal(expected.values[order], found.values[places])
    source[2](*batches[4])
    assert not np.array_equal(np.sort(mine.state().values, axis=None), np.sort(copied.state().values, axis=None))


def test_another_model_is_refused_and_unchanged(small_batches):
    schema, batches = small_batches("criteo")
    source, other = trained(schema, batches[:1], "none"), trained(schema.with_buckets(50), batches[:1], "none")
    before = get_state(*other[:2])
    with pytest.raises(CtrlabError, match="Shapes must match"):
        copy_state(source[:2], other[:2])
    with pytest.raises(CtrlabError, match="must have the model's variables"):
        copy_state(source[:2], (models.build("wdl"), None))
    assert alike(before, get_state(*other[:2]))
