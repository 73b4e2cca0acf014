"""What a table does not say, `Schema.infer` recognizes by the values, with a note for each guess."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ctrlab import models
from ctrlab.schema import Categorical, MultiHot, Numeric, Schema, Sequence

ROWS = 600
RNG = np.random.default_rng(5)
CLICKED = RNG.integers(0, 2, ROWS)
DAYS, HOURS = RNG.integers(10, 31, ROWS), RNG.integers(0, 24, ROWS)
ITEMS = np.arange(1, 400)


def inferred(**columns) -> Schema:
    return Schema.infer(pd.DataFrame({"clicked": CLICKED, "city": RNG.choice(["Rome", "Oslo"], ROWS)} | columns))


def lists(pool, most: int = 9, first: str = "") -> list[list]:
    return [[f"{first}{entry}" if first else entry for entry in RNG.choice(pool, size)] for size in RNG.integers(1, most, ROWS)]


SECONDS = RNG.integers(1_500_000_000, 1_580_000_000, ROWS)
TIMES = {
    "seconds": (SECONDS, "seconds since 1970"),
    "seconds with fractions": (SECONDS + 0.25, "seconds since 1970"),
    "milliseconds": (SECONDS * 1000, "milliseconds since 1970"),
    "microseconds": (SECONDS * 10**6, "microseconds since 1970"),
    "YYMMDDHH": (14_100_000 + DAYS * 100 + HOURS, "digits such as 1410"),
    "YYYYMMDD": (20_141_000 + DAYS, "digits such as 201410"),
    "YYYYMMDD in text": (np.array([f"201410{day}" for day in DAYS]), "text such as '201410"),
    "American text": ([f"11/{day}/2019 2:14:46 PM" for day in DAYS], "text such as '11/"),
    "German text": ([f"{day}.11.2019 14:46" for day in DAYS], "text such as '"),
    "months": ([f"Nov {day}, 2019" for day in DAYS], "text such as 'Nov "),
    "clock": ([f"{hour}:05" for hour in HOURS], "text such as '"),
}


@pytest.mark.parametrize(("values", "form"), TIMES.values(), ids=TIMES)
def test_times_in_any_form_are_left_out_as_times_are(values, form):
    schema = inferred(at=values)
    assert "at" not in schema
    [note] = schema.notes
    assert note.startswith(f"left out: at, a time ({form}") and note.endswith("; make numbers of it, such as the hour")


NO_TIMES = {
    "amounts of eight digits": (RNG.integers(10**7, 10**8, ROWS), Numeric),
    "numbers near seconds": (RNG.integers(10**8, 10**10, ROWS), Numeric),
    "years": (RNG.integers(1950, 2025, ROWS), Numeric),
    "versions": (RNG.choice(["1.2.3", "1.12.4"], ROWS), Categorical),
    "names of phones": (RNG.choice(["iphone 12 2020", "galaxy 10 2019"], ROWS), Categorical),
    "packs": (RNG.choice(["12 pack 24", "6 pack 12"], ROWS), Categorical),
    "lengths of films": (RNG.choice(["91:30", "120:05"], ROWS), Categorical),
    "addresses": (RNG.choice(["10.0.0.1", "10.0.12.2014"], ROWS), Categorical),
}


@pytest.mark.parametrize(("values", "kind"), NO_TIMES.values(), ids=NO_TIMES)
def test_what_is_no_time(values, kind):
    schema = inferred(at=values)
    assert isinstance(schema["at"], kind) and schema.notes == ()


def test_ids_that_look_like_times_are_ids_by_their_name():
    schema = inferred(session_id=SECONDS % 50 + 1_500_000_000)
    assert schema["session_id"] == Categorical("session_id", buckets=1000) and schema.notes == ()


TEXTS = {
    "genres": (["|".join(sorted(set(row))) for row in lists(["Action", "Comedy", "Drama", "War"])], "|"),
    "news": ([" ".join(row) for row in lists(np.arange(3000), first="N")], " "),
    "items": (["\x02".join(row) for row in lists(["mug", "cup", "pan"])], "\x02"),
    "tags": ([",".join(sorted(set(row))) for row in lists([*"abcdef"])], ","),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_holds_lists_is_said(name):
    texts, sign = TEXTS[name]
    schema = inferred(column=texts)
    assert isinstance(schema["column"], Categorical)
    [note] = schema.notes
    assert note.startswith(f"column has {sign!r} between parts of its words, taken for one word each; lists of the parts")
    split = inferred(column=pd.Series(texts).str.split(sign, regex=False))
    assert isinstance(split["column"], MultiHot) and split.notes == ()


def test_words_of_several_words_are_words():
    towns = [f"{a} {b}" for a, b in zip(RNG.choice(["New", "Old"], ROWS), RNG.choice(["York", "Rome"], ROWS))]
    assert inferred(town=towns).notes == ()


def test_numbers_that_fill_a_list_are_ids():
    schema = inferred(iid=RNG.choice(ITEMS, ROWS), votes=RNG.integers(1, 2000, ROWS), seen=lists(ITEMS))
    assert schema["iid"] == Categorical("iid", buckets=schema["seen"].buckets)
    assert schema["seen"] == Sequence("seen", buckets=schema["iid"].buckets, table="iid", of="iid")
    assert schema.notes == (
        "iid is taken for ids, because seen holds its numbers",
        "seen is taken for the history of iid, oldest first",
    )
    assert isinstance(schema["votes"], Numeric) and schema.wide == ("city", "iid")


def test_small_numbers_are_the_same_by_chance():
    schema = inferred(age=RNG.integers(18, 80, ROWS), scores=lists(np.arange(100)), user=RNG.integers(0, 300, ROWS))
    assert isinstance(schema["age"], Numeric) and isinstance(schema["scores"], MultiHot) and schema["scores"].table == "scores"


@pytest.mark.parametrize("name", ["past", "news_id_list", "clicks"])
def test_a_history_of_any_name_is_one_and_has_no_linear_weights(name):
    words = [f"N{i}" for i in range(300)]
    schema = inferred(**{"news_id": RNG.choice(words, ROWS), name: lists(words)})
    assert schema[name].of == schema[name].table == "news_id" and name not in schema.wide
    assert schema.notes == (f"{name} is taken for the history of news_id, oldest first",)


@pytest.mark.parametrize("model", ["din", "dien"])
def test_lists_of_different_lengths_give_a_schema_that_is_built(model):
    items, shops = ITEMS, np.arange(500, 540)
    item, likes = RNG.choice(items, ROWS), lists(items)
    columns = {"item": [f"i{i}" for i in item], "item_likes": [[f"i{i}" for i in row] for row in likes]}
    columns |= {"item_hates": lists(items, 4, "i"), "shop": RNG.choice(shops, ROWS), "shop_seen": lists(shops, 3)}
    schema = inferred(**columns)
    assert [(s.name, s.of, s.table) for s in schema.sequences] == [
        ("item_likes", "item", "item"),
        ("item_hates", "", "item"),
        ("shop_seen", "", "shop"),
    ]
    assert schema.notes == (
        "item_likes is taken for the history of item, oldest first",
        "item_hates holds words of item, too, whose history is item_likes: models take the mean of its words",
        "shop_seen holds words of shop, in other numbers than item_likes: models take the mean of its words",
    )
    models.build(model, schema, size="small")
    aligned = inferred(**columns | {"shop_seen": [list(RNG.choice(shops, len(row))) for row in likes]})
    assert aligned["shop_seen"].of == "shop"


def test_lists_without_an_entry_in_a_row():
    table = {"clicked": [0, 1, 0], "item": ["a", "b", "a"], "item_past": pa.array([["a"], None, []])}
    assert Schema.infer(table)["item_past"].of == "item"
