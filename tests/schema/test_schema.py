"""Columns and schemas that make no sense are refused when they are made, in one sentence that names the column."""

import numpy as np
import pytest

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

WORDS = {"encoding": "vocabulary", "vocabulary": ("a", "b")}
BAD_COLUMNS = {
    "no name": (lambda: Numeric(""), "A column has a name"),
    "a misspelt transform": (lambda: Numeric("x", transform="log"), "'log'; known are none, log1p, minmax. Did you mean 'log1p'"),
    "a misspelt transform of a list": (lambda: NumericList("x", transform="log"), "Unknown transform of column 'x'"),
    "a range without width": (lambda: Numeric("x", transform="minmax", low=2.0, high=2.0), "low must be below high"),
    "a range upside down": (lambda: NumericList("x", transform="minmax", low=2.0, high=1.0), "low must be below high"),
    "an end that is NaN": (lambda: Numeric("x", transform="minmax", low=float("nan")), "`low` must be a finite number"),
    "an infinite default": (lambda: Numeric("x", default=float("inf")), "`default` must be a finite number"),
    "a default of text": (lambda: Numeric("x", default="0"), "`default` must be a finite number"),
    "a list's default": (lambda: NumericList("x", default="1;x"), "finite numbers such as '1;2'"),
    "a list's default that is NaN": (lambda: NumericList("x", default="nan"), "has 'nan'"),
    "a list's default that is a number": (lambda: NumericList("x", default=0), "has 0"),
    "a separator in numbers": (lambda: NumericList("x", separator="."), "can't be part of one"),
    "no separator": (lambda: MultiHot("x", separator=""), "at least one character"),
    "a line end as separator": (lambda: Sequence("x", separator="\n"), "without line ends"),
    "no bucket": (lambda: Categorical("x", buckets=0), "`buckets` must be a whole number from 1"),
    "negative buckets": (lambda: MultiHot("x", buckets=-5), "has -5"),
    "half a bucket": (lambda: Categorical("x", buckets=0.5), "has 0.5"),
    "too many buckets": (lambda: Categorical("x", buckets=1 << 63), "`buckets` must"),
    "a misspelt encoding": (lambda: Categorical("x", encoding="hashed"), "encoding of column 'x' 'hashed'.*'hash'"),
    "a word twice": (lambda: Categorical("x", **WORDS | {"vocabulary": ("a", "b", "a")}), "'a' more than once"),
    "words that are no texts": (lambda: Categorical("x", **WORDS | {"vocabulary": (1, 2)}), "a tuple of texts"),
    "one text for words": (lambda: Categorical("x", **WORDS | {"vocabulary": "ab"}), "a tuple of texts"),
    "a vocabulary without words": (lambda: Categorical("x", encoding="vocabulary"), "go together"),
    "words that nobody looks at": (lambda: Categorical("x", vocabulary=("a",)), "go together"),
    "a default of no vocabulary": (lambda: Categorical("x", default="c", **WORDS), "must be a word of the vocabulary"),
    "a default outside the table": (lambda: Categorical("x", encoding="identity", buckets=9, default="9"), r"id in \[0, 9\)"),
    "a default that is no id": (lambda: Categorical("x", encoding="identity", buckets=9, default="-1"), r"id in \[0, 9\)"),
    "a default that is no text": (lambda: Categorical("x", default=0), "`default` of an id column is text"),
    "a range too narrow": (lambda: Numeric("x", transform="minmax", high=1e-45), "divides by high - low in float32"),
    "a range of nothing": (lambda: Numeric("x", transform="minmax", low=1e-300, high=2e-300), "divides by high - low in float32"),
    "a range too wide": (lambda: NumericList("x", transform="minmax", low=-3e38, high=3e38), "divides by high - low in float32"),
    "ends beyond float32": (
        lambda: Numeric("x", transform="minmax", low=-1e308, high=1e308),
        "`low` must be a number of float32",
    ),
    "a default beyond float32": (lambda: Numeric("x", default=1e39), "`default` must be a number of float32"),
    "a default without end": (lambda: Numeric("x", default=10**400), "`default` must be a number of float32"),
    "a list's default beyond float32": (lambda: NumericList("x", default="1;1e39"), "has '1;1e39'"),
    "a logarithm's low beyond float32": (lambda: Numeric("x", transform="log1p", low=1e300), "`low` must be a number of float32"),
    "a number for words": (lambda: Categorical("x", **WORDS | {"vocabulary": 5}), "a tuple of texts; column 'x' has 5"),
    "numbers of NumPy for words": (lambda: Categorical("x", **WORDS | {"vocabulary": np.arange(3)}), "a tuple of texts"),
    "a soft that is a text": (lambda: Label("x", soft="no"), "`soft` is True or False; column 'x' has 'no'"),
    "an encoded that is a text": (lambda: MultiHot("x", encoded="no"), "`encoded` is True or False; column 'x' has 'no'"),
    "a table that is a number": (lambda: Categorical("x", table=5), "`table` is a name; column 'x' has 5"),
    "no length": (lambda: Sequence("x", max_length=0), "`max_length` must be a whole number from 1"),
}


@pytest.mark.parametrize(("make", "said"), BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_a_column_that_makes_no_sense(make, said):
    with pytest.raises(CtrlabError, match=said) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value).splitlines()) == 1


ITEM = Categorical("item", buckets=9)
BAD_SCHEMAS = {
    "two of one name": (lambda: Schema("s", (ITEM, Numeric("item"))), "two columns 'item'"),
    "no column": (lambda: Schema("s", ("item",)), "made of columns such as"),
    "a column alone": (lambda: Schema("s", ITEM), "is a tuple"),
    "a wide name alone": (lambda: Schema("s", (ITEM,), wide="item"), "`wide` of a schema is a tuple"),
    "wide of a number": (lambda: Schema("s", (Numeric("x"),), wide=("x",)), "must name id columns"),
    "a user that is none": (lambda: Schema("s", (Numeric("x"),), user="x"), "must name a categorical"),
    "a user that is near": (lambda: Schema("s", (ITEM,), user="itme"), "called 'itme'. Did you mean 'item'?"),
    "a role of what is near": (lambda: Schema("s", (ITEM,), user_columns=("itme",)), "'itme'. Did you mean 'item'?"),
    "a role of a label": (lambda: Schema("s", (Label("y"), ITEM), context_columns=("y",)), "must name a feature"),
    "roles alone": (lambda: Schema("s", (ITEM,), user_columns="item"), "is a tuple"),
    "two roles": (lambda: Schema("s", (ITEM,), user_columns=("item",), context_columns=("item",)), "'item' for both"),
    "a user in the context": (lambda: Schema("s", (ITEM,), user="item", context_columns=("item",)), "'item' for both"),
    "a history in the context": (
        lambda: Schema("s", (ITEM, Sequence("past", table="item", buckets=9, of="item")), context_columns=("past",)),
        "'past' for both",
    ),
    "a wide column that is near": (
        lambda: Schema("s", (ITEM, Numeric("itm")), wide=("itm",)),
        "called 'itm'. Did you mean 'item'?",
    ),
    "a history of what is near": (
        lambda: Schema("s", (ITEM, Sequence("past", table="item", of="itme"))),
        "'itme'. Did you mean 'item'?",
    ),
    "a history of another table": (
        lambda: Schema("s", (ITEM, Sequence("past", buckets=9, of="item"))),
        "'past' has the table 'past' and 'item' has 'item': give 'past' table='item'",
    ),
    "negatives of another table": (
        lambda: Schema("s", (Sequence("past", buckets=9), Sequence("not", buckets=9, negative_of="past"))),
        "'not' has the table 'not'",
    ),
    "a history of a list": (
        lambda: Schema("s", (MultiHot("tags"), Sequence("past", table="tags", of="tags"))),
        "must name a Categorical column",
    ),
    "negatives of no history": (lambda: Schema("s", (ITEM, Sequence("n", negative_of="item"))), "must name a Sequence column"),
    "a table of two sizes": (lambda: Schema("s", (ITEM, MultiHot("m", buckets=8, table="item"))), "9 hash .item. and 8 hash .m."),
    "a table of two vocabularies": (
        lambda: Schema(
            "s", (Categorical("a", **WORDS), Categorical("b", encoding="vocabulary", vocabulary=("b", "a"), table="a"))
        ),
        "must agree",
    ),
    "a separator that separates columns": (lambda: Schema("s", (MultiHot("m", separator=","),)), "no delimiter in it"),
    "a separator with the delimiter": (lambda: Schema("s", (MultiHot("m", separator=", "),)), "no delimiter in it"),
    "a long delimiter": (lambda: Schema("s", (ITEM,), delimiter="::"), "one ASCII character"),
    "no delimiter": (lambda: Schema("s", (ITEM,), delimiter=""), "one ASCII character"),
    "a delimiter in numbers": (lambda: Schema("s", (ITEM,), delimiter="."), "none that numbers have"),
    "a line end as delimiter": (lambda: Schema("s", (ITEM,), delimiter="\n"), "no line end"),
}


@pytest.mark.parametrize(("make", "said"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_a_schema_that_makes_no_sense(make, said):
    with pytest.raises(CtrlabError, match=said) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value).splitlines()) == 1


def test_a_column_by_a_name_that_is_near():
    with pytest.raises(UnknownName, match=r"Unknown column of schema 's' 'itme'; known are item.*Did you mean 'item'"):
        Schema("s", (ITEM,))["itme"]


@pytest.mark.parametrize("words", [["a", "b"], np.array(["a", "b"]), iter(("a", "b"))])
def test_a_vocabulary_is_kept_as_a_tuple_of_texts(words):
    column = Categorical("x", encoding="vocabulary", vocabulary=words)
    assert column == Categorical("x", **WORDS) and hash(column) and type(column.vocabulary[0]) is str


def test_roles():
    past, age, hour = Sequence("past", table="item", buckets=9, of="item"), Numeric("age"), Numeric("hour")
    columns = (Label("y"), ITEM, Categorical("who", buckets=9), past, age, hour)
    schema = Schema("s", columns, user="who", user_columns=["age"], context_columns=["hour"])
    roles = {"item": "candidate", "who": "user", "past": "user", "age": "user", "hour": "context"}
    assert {name: schema.role(name) for name in roles} == roles
    assert Schema.from_config(schema.to_config()) == schema == schema.with_buckets(9)
    assert 'context_columns=("hour",)' in str(schema)
    with pytest.raises(UnknownName, match="Did you mean 'age'"):
        schema.role("agee")


def test_columns_in_a_list_make_the_same_schema():
    assert Schema("s", [ITEM, Label("y")], wide=["item"]) == Schema("s", (ITEM, Label("y")), wide=("item",))


def test_a_config_from_before_makes_the_same_schema():
    schema = Schema("s", (Label("y"), Label("share", soft=True), Categorical("item", **WORDS)), user="item")
    config = schema.to_config()
    del config["user_columns"], config["context_columns"]
    assert Schema.from_config(config) == schema
    del config["columns"][0]["soft"]  # labels had no such option
    assert Schema.from_config(config) == schema
