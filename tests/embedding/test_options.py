"""Invalid options of an embedding variable are refused when they are made."""

import keras
import pytest

from ctrlab.embedding import (
    BloomFilter,
    CounterFilter,
    EmbeddingVariable,
    GlobalStepEviction,
    Initializer,
    L2Eviction,
    Options,
    Storage,
)
from ctrlab.embedding.choices import BinaryCode, Hashed, QuotientRemainder, Variable
from ctrlab.errors import CtrlabError


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CounterFilter(0), r"An admission threshold must be a whole number in \[1, 2\^31\); received 0"),
        (lambda: CounterFilter(2.5), r"An admission threshold must be a whole number .* received 2\.5"),
        (lambda: CounterFilter("2"), "An admission threshold must be a whole number .* received '2'"),
        (lambda: CounterFilter(1 << 31), "An admission threshold must be a whole number .* received 2147483648"),
        (lambda: BloomFilter(2), r"expected_keys must be a whole number in \[1, 2\^40\); received 0"),
        (lambda: GlobalStepEviction(None), "steps_to_live must be a whole number .* received None"),
        (lambda: Storage("rows", 0), r"memory_rows must be a whole number in \[1, 2\^31\); received 0"),
        (lambda: Storage("rows", 1 << 64), "memory_rows must be a whole number"),
        (lambda: Storage("rows", 1e6), "memory_rows must be a whole number .* received 1000000.0"),
        (lambda: Storage(None, 5), r'^A storage has the path of a folder, such as "rows"; received None\.$'),
        (lambda: Storage(3, 5), "the path of a folder, .* received 3"),
        (lambda: Storage("", 5), "the path of a folder, .* received ''"),
        (lambda: Storage(" ", 5), "the path of a folder, .* received ' '"),
        (lambda: Initializer("uniform", "a"), "An initializer's a and b must be numeric; received 'a'"),
        (lambda: Initializer.glorot_normal(None, 1), "Fans must be numeric; received None"),
        (lambda: L2Eviction(None), "An L2 threshold must be numeric; received None"),
        (lambda: BloomFilter(1, 10, "a"), "A false-positive rate must be numeric; received 'a'"),
        (lambda: Hashed("a"), "rows must be at least 1, and whole; received 'a'"),
        (lambda: Hashed(1.5), r"rows must be at least 1, and whole; received 1\.5"),
        (lambda: QuotientRemainder(None), "A compression must be positive and finite; received None"),
        (lambda: BinaryCode(blocks=None), "A binary code must have 1 to 8 blocks; received None"),
        (lambda: Variable(3), r"The options of a Variable must be ctrlab\.embedding\.Options; received 3"),
        (lambda: Initializer(seed=-1), r"A seed must be a whole number in \[0, 2\^63\); received -1"),
    ],
)
def test_numbers_that_can_not_be(make, sentence):
    with pytest.raises(CtrlabError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"initializer": keras.initializers.Orthogonal()}, "`initializer` .* must be Initializer; received .*Orthogonal"),
        ({"initializer": None}, "`initializer` .* must be Initializer; received None"),
        ({"admission": 2}, "`admission` .* must be CounterFilter or None; received 2"),
        (
            {"eviction": CounterFilter(2)},
            "`eviction` .* must be GlobalStepEviction or L2Eviction or None; received CounterFilter",
        ),
        ({"storage": "rows"}, "`storage` .* must be Storage or None; received 'rows'"),
    ],
)
def test_options_of_another_kind(options, sentence):
    with pytest.raises(CtrlabError, match=sentence):
        Options(**options)


@pytest.mark.parametrize("wrong", [{"admission": CounterFilter(2)}, L2Eviction(1.0), 0])
def test_what_is_no_options(wrong):
    with pytest.raises(CtrlabError, match=r"items must be ctrlab\.embedding\.Options; received"):
        EmbeddingVariable("items", 2, wrong)


def test_options_come_back_from_plain_values():
    options = Options(Initializer("normal", seed=7), BloomFilter(2, 100), L2Eviction(0.5), Storage("rows", 4, "lru", "sync"))
    assert Options.from_config(options.to_config()) == options


def test_a_path_of_a_storage_may_be_a_path(tmp_path):
    options = Options(storage=Storage(tmp_path, 5))
    assert options.storage == Storage(str(tmp_path), 5) == Options.from_config(options.to_config()).storage
