"""Histories of different lengths: the models that attend to them refuse them by name, and take the mean of those without `of`."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import models, training
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Categorical, Label, Schema, Sequence

ITEM, SHOP = (Categorical(name, buckets=50) for name in ("item", "shop"))
ROWS = 4


def past(name: str, column: Categorical, **options) -> Sequence:
    return Sequence(name, buckets=50, table=column.name, **options)


def batch(**lengths: int) -> tuple[dict, np.ndarray]:
    words = tf.constant([f"w{i}" for i in range(ROWS)])
    lists = {name: tf.RaggedTensor.from_row_lengths(tf.repeat(words, n), [n] * ROWS) for name, n in lengths.items()}
    return {"item": words, "shop": words} | lists, np.arange(ROWS) % 2


@pytest.mark.parametrize("name", ["din", "dien"])
def test_two_histories_of_one_column_are_refused_by_name(name):
    both = (past("likes", ITEM, of="item"), past("hates", ITEM, of="item"))
    with pytest.raises(
        CtrlabError, match=r"one history of a column at most; schema 'own' has likes and hates of 'item': leave out"
    ):
        models.build(name, Schema("own", (Label("click"), ITEM, SHOP, *both)))


@pytest.mark.parametrize("rungs", ["none", "all"])
@pytest.mark.parametrize("name", ["din", "dien"])
def test_lists_of_different_lengths(name, rungs):
    histories = (past("items", ITEM, of="item"), past("shops", SHOP, of="shop"), past("hates", ITEM))
    negatives = (past("not_items", ITEM, negative_of="items"), past("not_shops", SHOP, negative_of="shops"))
    schema = Schema("own", (Label("click"), ITEM, SHOP, *histories, *(negatives if name == "dien" else ())))
    model = training.compile_model(models.build(name, schema, rungs, size="small", dim=4))
    alike = {"items": 2, "shops": 2, "hates": 3, "not_items": 2, "not_shops": 2}
    assert np.isfinite(model.fit(*batch(**alike), verbose=0).history["loss"]).all()
    other = "not_items" if name == "dien" else "shops"
    with pytest.raises(BadData, match=f"Lists .* of equal length in each row; those of 'items' and '{other}' differ:") as caught:
        model.fit(*batch(**alike | {other: 1}), verbose=0)
    assert len(str(caught.value).splitlines()) == 1
