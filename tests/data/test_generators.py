"""Properties of all generators: types, determinism, lists that belong together, and words that belong to ids."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ctrlab.data import SCHEMAS, generate
from ctrlab.data.arrow import arrow_schema
from ctrlab.data.generator import BLOCK
from ctrlab.data.sets import food_delivery
from ctrlab.data.words import Ragged, mix, spell
from ctrlab.errors import CtrlabError

ROWS = BLOCK + 100


@pytest.fixture(scope="module")
def table():
    """`table(name)` -> the first ROWS rows of seed 1, made once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = pa.concat_tables(generate(name, ROWS, seed=1)).unify_dictionaries()
        return made[name]

    return of


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_and_types(name, table):
    assert table(name).schema == arrow_schema(SCHEMAS[name])
    assert len(table(name)) == ROWS
    table(name).validate(full=True)


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_depend_on_the_seed_alone(name, table):
    again = pa.concat_tables(generate(name, 50, seed=1)).unify_dictionaries()
    assert again.to_pylist() == table(name).slice(0, 50).to_pylist()
    last = list(generate(name, ROWS, seed=1))[-1]
    assert last.to_pylist() == table(name).slice(BLOCK).to_pylist()
    other = pa.concat_tables(generate(name, 50, seed=2)).unify_dictionaries()
    assert other.to_pylist() != again.to_pylist()


@pytest.mark.parametrize(("rows", "seed"), [(0, 0), (-5, 0), (10, -1)])
def test_impossible_requests(rows, seed):
    with pytest.raises(CtrlabError, match=f"asked were {rows} rows, seed {seed}"):
        next(generate("criteo", rows, seed))


def test_food_delivery_histories_are_parallel(table):
    rows = table("food_delivery")
    lengths = [pc.list_value_length(rows[column.name]) for column in food_delivery.HISTORY]
    assert all(column.equals(lengths[0]) for column in lengths)


def test_food_delivery_properties_follow_from_the_item(table):
    rows = table("food_delivery")
    items = rows["item_id_list"].combine_chunks().flatten().to_pylist()
    for name in ("shop_id", "category_1_id", "brand_id", "merge_standard_food_id", "shop_aoi_id"):
        values = rows[f"{name}_list"].combine_chunks().flatten().to_pylist()
        property_of = dict(zip(items, values))
        assert [property_of[item] for item in items] == values, name
        shown = zip(rows["item_id"].to_pylist(), rows[name].to_pylist())
        assert all(property_of.get(item, value) == value for item, value in shown), f"{name} of the target and of the history"


def test_food_delivery_time_types(table):
    rows = table("food_delivery")
    hours, kinds = rows["hours"].to_numpy(), np.array(rows["time_type"].to_pylist())
    assert set(kinds[(hours >= 10) & (hours <= 13)]) == {"lunch"}
    assert set(kinds[hours >= 21]) == {"night"}
    assert set(kinds) == set(food_delivery.TIME_TYPES)


@pytest.mark.parametrize("name", ["amazon_reviews", "rees46"])
def test_reviews_come_in_pairs(name, table):
    rows = table(name)
    even, odd = rows.take(list(range(0, 2_000, 2))), rows.take(list(range(1, 2_000, 2)))
    assert np.all(even["label"].to_numpy() + odd["label"].to_numpy() == 1.0)
    for column in ("user", "history_items", "history_categories", "negative_items", "negative_categories"):
        assert even[column].to_pylist() == odd[column].to_pylist()
    for column in ("history_categories", "negative_items", "negative_categories"):
        assert pc.list_value_length(rows[column]).equals(pc.list_value_length(rows["history_items"]))
    category_of = {}
    for items, categories in (("history_items", "history_categories"), ("negative_items", "negative_categories")):
        pairs = zip(rows[items].to_pylist(), rows[categories].to_pylist())
        for item, category in itertools.chain.from_iterable(map(zip, *zip(*pairs))):
            assert category_of.setdefault(item, category) == category


def test_taobao_tags_are_spelled_like_categories(table):
    rows = table("taobao")
    tags = set(rows["tag_category_list"].combine_chunks().flatten().to_pylist())
    assert np.mean([category in tags for category in rows["cate_id"].to_pylist()]) > 0.5
    assert sorted(set(rows["price"].to_pylist())) == list(range(50))


def test_a_buy_follows_a_click(table):
    rows = table("taobao")
    assert np.all(rows["clk"].to_numpy() >= rows["buy"].to_numpy())


def test_words_of_different_ids_differ():
    ids = np.arange(1 << 17)
    assert len(np.unique(mix(ids, 7))) == len(ids)
    assert len(set(spell(ids[:1000], "item").to_pylist())) == 1000
    assert spell(ids[:10], "item").equals(spell(ids[:20], "item")[:10])
    assert not spell(ids[:10], "item").equals(spell(ids[:10], "shop"))


def test_repeated_lists():
    lists = Ragged(np.array([5, 6, 7]), np.array([0, 2, 2, 3])).repeated(2)
    assert lists.values.tolist() == [5, 6, 5, 6, 7, 7]
    assert lists.offsets.tolist() == [0, 2, 4, 4, 4, 5, 6]


def test_rees46_has_the_columns_of_amazon_reviews():
    assert SCHEMAS["rees46"].columns == SCHEMAS["amazon_reviews"].columns
