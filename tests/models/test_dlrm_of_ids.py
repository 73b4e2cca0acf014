"""DLRM without numbers: its products must learn what each id is worth by itself."""

import numpy as np
import pytest

from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Schema
from ctrlab.training import compile_model, evaluate


def batches(rng, count):
    """128 rows each. What a user and an item are worth is added up; the two together are worth nothing more."""
    made = []
    for _ in range(count):
        user, item = rng.integers(20, size=128), rng.integers(20, size=128)
        clicked = rng.random(128) < 1 / (1 + np.exp(-((user - 9.5) + (item - 9.5)) / 5))
        made.append(({"user": user.astype(str), "item": item.astype(str)}, clicked.astype(np.float32)))
    return made


@pytest.mark.parametrize("columns", [("user", "item"), ("user",)], ids="-".join)
@pytest.mark.parametrize("embedding", ["hashed", "variable"])
@pytest.mark.parametrize("size", ["contest", "small"])
def test_what_an_id_is_worth_is_learned(size, embedding, columns):
    schema = Schema("ids", (*(Categorical(name, 200) for name in columns), Label("clicked")))
    sizes = {"units": {"top": (16,)}} if size == "contest" else {}
    model = compile_model(build("dlrm", schema, "all", embedding=embedding, size=size, **sizes))
    given = [({name: x[name] for name in columns}, y) for x, y in batches(np.random.default_rng(1), 60)]
    for batch in given[:50]:
        model.train_on_batch(*batch)
    assert evaluate(model, given[50:]).auc["clicked"] > (0.75 if len(columns) == 2 else 0.65)
