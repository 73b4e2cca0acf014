"""Generated columns are spread as measured on the real samples, and the comparison that says so finds what is wrong."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctrlab.data import SCHEMAS, generate
from ctrlab.data.convert import convert_real
from ctrlab.data.marginals import Ids, Numbers, Published, Statistics, statistics
from ctrlab.data.measure import Tolerance, differences, distance, measure, measure_file
from ctrlab.data.sets import PUBLISHED
from ctrlab.errors import BadData

# 304 rows say little: a positive rate of 5 % is known to 1.2 %, a share of 30 % to 2.6 %, and lists repeat each other's tags.
TOLERANCES = {
    "food_delivery": Tolerance(share=0.03),
    "taobao": Tolerance(positive=0.025, share=0.12, same=0.1, distribution=0.1, distinct=0.25),
}
# A food's other properties follow from the item, so only what is drawn on its own is spread as its statistics say.
FOOD = {"user_id", "item_id", "category_1_id_list", "timediff_list", "times", "weekdays"}
MOST_ROWS = 160_000


@pytest.fixture(scope="module")
def measured():
    """`measured(name)` -> statistics of as many generated rows as the real sample had."""
    made = {}

    def of(name):
        if name not in made:
            rows = min(statistics(name).rows, MOST_ROWS)
            table = pa.concat_tables(generate(name, rows, seed=11)).unify_dictionaries()
            made[name] = measure(table, SCHEMAS[name], "generated", PUBLISHED.get(name, Published("")).cardinalities)
        return made[name]

    return of


@pytest.mark.parametrize("name", SCHEMAS)
def test_generated_is_spread_as_measured(name, measured):
    expected = statistics(name)
    if name == "food_delivery":
        expected = dataclasses.replace(expected, ids={n: ids for n, ids in expected.ids.items() if n in FOOD})
    assert differences(measured(name), expected, TOLERANCES.get(name)) == []


@pytest.mark.parametrize(
    ("part", "column", "change", "message"),
    [
        ("ids", "C5", {"missing": 0.1}, "missing rate of C5 should be 0.1"),
        ("ids", "C5", {"head": (0.4, 0.1)}, "top share of C5 should be 0.4"),
        ("ids", "C5", {"head": (0.674, 0.01)}, "top ten's share of C5"),
        ("ids", "C5", {"distinct": 300}, "different ids of C5 should be 300"),
        ("ids", "C5", {"same": 0.2}, "equal neighbours in C5"),
        ("numbers", "I5", {"missing": 0.5}, "missing rate of values of I5"),
        ("numbers", "I5", {"quantiles": tuple(map(float, range(101)))}, "value distribution of I5"),
    ],
)
def test_the_comparison_finds_wrong_figures(part, column, change, message, measured):
    expected = statistics("criteo")
    columns = getattr(expected, part)
    wrong = dataclasses.replace(expected, **{part: columns | {column: dataclasses.replace(columns[column], **change)}})
    found = differences(measured("criteo"), wrong)
    assert any(sentence.startswith(message) or message in sentence for sentence in found), found
    assert all(column in sentence for sentence in found), "nothing else is wrong"


def test_the_comparison_finds_wrong_rates_and_lengths(measured):
    expected = statistics("amazon_reviews")
    wrong = dataclasses.replace(
        expected,
        positive={"label": 0.4},
        lengths=expected.lengths | {"history_items": Numbers((0.0, 5.0, 50.0))},
    )
    first, second = differences(measured("amazon_reviews"), wrong)
    assert "positive rate of label should be 0.4" in first
    assert "length distribution of history_items" in second


@pytest.mark.parametrize("name", ["taobao", "rees46"])
def test_the_shipped_figures_are_those_of_the_real_sample(name, real_data, tmp_path):
    convert_real(name, real_data, tmp_path, progress=False)
    parts = [pq.read_table(tmp_path / f"{part}.parquet") for part in ("train", "test")]
    pq.write_table(pa.concat_tables(parts), tmp_path / "all.parquet")
    found, shipped = measure_file(name, tmp_path / "all.parquet"), statistics(name)
    # Lists' neighbours and ids of equal count don't depend on the order of rows, so all is equal to the last digit.
    assert found == shipped


def test_measuring_by_hand():
    schema = SCHEMAS["taobao"]
    rows = [
        {c.name: "a" for c in schema.features}
        | {"clk": 1.0, "buy": 0.0, "price": 3, "brand": brand, "tag_category_list": tags, "tag_brand_list": []}
        for brand, tags in (("x", ["1", "1", "2"]), ("x", []), ("y", ["2"]), (None, ["2", "2"]))
    ]
    from ctrlab.data.arrow import arrow_schema

    found = measure(pa.Table.from_pylist(rows, arrow_schema(schema)), schema, "by hand")
    assert found.positive == {"clk": 1.0, "buy": 0.0}
    assert found.ids["brand"].head == pytest.approx((2 / 3, 1 / 3), abs=1e-5)
    assert (found.ids["brand"].missing, found.ids["brand"].distinct) == (0.25, 2)
    assert found.ids["tag_category_list"].same == pytest.approx(2 / 3, abs=1e-5)  # 1-1 and 2-2, not 1-2 and not across rows
    assert found.ids["tag_category_list"].head == pytest.approx((4 / 6, 2 / 6), abs=1e-5)
    assert (found.lengths["tag_category_list"].quantiles[0], found.lengths["tag_category_list"].quantiles[-1]) == (0.0, 3.0)
    assert Statistics.from_text(found.to_text()) == found


def test_ids_follow_their_law():
    ids = Ids(cardinality=1_000, head=(0.3, 0.2), exponent=1.4, shift=3.0, missing=0.25)
    drawn = ids.sample(np.random.default_rng(0), 400_000)
    assert np.mean(drawn < 0) == pytest.approx(0.25, abs=0.005)
    shares = np.bincount(drawn[drawn >= 0], minlength=1_000) / np.sum(drawn >= 0)
    assert ids.probabilities().sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares, ids.probabilities(), atol=0.003)
    tail = np.arange(2, 1_000) + 1.5 + 3.0
    np.testing.assert_allclose(ids.probabilities()[2:], 0.5 * tail**-1.4 / np.sum(tail**-1.4), rtol=0.02)


def test_numbers_follow_their_quantiles():
    rng = np.random.default_rng(0)
    steps = Numbers((0.0, 0.0, 1.0, 5.0), steps=True).sample(rng, 10_000)
    assert set(steps) == {0.0, 1.0, 5.0}
    spread = Numbers((-3.0, 0.0, 100.0), missing=0.1, whole=False).sample(rng, 100_000)
    assert np.isnan(spread).mean() == pytest.approx(0.1, abs=0.01)
    assert np.mean(spread[~np.isnan(spread)] <= 0.0) == pytest.approx(0.5, abs=0.01)
    assert (np.nanmin(spread), np.nanmax(spread)) == pytest.approx((-3.0, 100.0), abs=0.1)
    assert distance(Numbers((0.0, 1.0, 2.0)), Numbers((5.0, 6.0, 7.0))) == 1.0


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', '{"ids": {"a": {"colour": 1}}, "numbers": {}, "lengths": {}}'])
def test_a_file_that_is_no_statistics(text):
    with pytest.raises(BadData, match="A statistics file must hold what `measure` writes"):
        Statistics.from_text(text)


def test_tables_that_can_not_be_measured(tmp_path):
    schema = SCHEMAS["criteo"]
    with pytest.raises(BadData, match="has no column 'label'"):
        measure(pa.table({"I1": [1.0]}), schema, "")
    with pytest.raises(BadData, match="has no rows"):
        measure(next(generate("criteo", 1)).slice(1), schema, "")
    with pytest.raises(BadData, match=r"none\.parquet can't be read as Parquet"):
        measure_file("criteo", tmp_path / "none.parquet")
