"""The converters on the real samples: every row is read, and the label rates are those published with them."""

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ctrlab.data.convert import convert, convert_real
from ctrlab.data.sets import RAWS

EXPECTED = {  # train rows, test rows (None: a fifth of all by hash), positive rate of each label
    "criteo": (137_139, None, {"label": 0.2568}),
    "census_income": (199_523, 99_762, {"never_married": 0.433, "income_50k": 0.062}),
    "amazon_reviews": (139_272, 15_474, {"label": 0.5}),
    "rees46": (62_858, 6_978, {"label": 0.5}),
    "taobao": (304, None, {"clk": 14 / 304, "buy": 0.0}),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_all_rows_of_a_sample_are_kept(name, real_data, tmp_path):
    train, test, rates = EXPECTED[name]
    counts = convert_real(name, real_data, tmp_path, progress=False)
    tables = [pq.read_table(tmp_path / f"{part}.parquet") for part in ("train", "test")]
    rows = [len(table) for table in tables]
    assert counts.rejected == 0 and counts.read == counts.written == sum(rows) == train + (test or 0)
    if test:
        assert rows == [train, test]
    else:
        assert abs(rows[1] / train - 0.2) < 0.02
    for label, rate in rates.items():
        positives = sum(pc.sum(table[label]).as_py() for table in tables)
        assert positives / sum(rows) == pytest.approx(rate, abs=6e-4)


def test_criteo_cardinalities_and_missing_values(real_data, tmp_path):
    convert("criteo", real_data / "criteo_kaggle" / "train.tsv.gz", tmp_path / "all.parquet", progress=False)
    table = pq.read_table(tmp_path / "all.parquet")
    distinct = {"I1": 156, "I5": 28_379, "C1": 616, "C3": 61_763, "C20": 3, "C26": 11_138}
    for name, most in distinct.items():
        # The published counts take a missing value as one more word in some columns.
        assert most - len(table[name].unique().drop_null()) in (0, 1), name
    for name, share in {"I12": 0.77, "C22": 0.76, "I1": 0.45, "C6": 0.12}.items():
        assert table[name].null_count / len(table) == pytest.approx(share, abs=0.01), name


def test_taobao_behavior_lengths(real_data, tmp_path):
    source = real_data / "taobao" / "user_behavior_100k.csv.gz"
    counts = convert("taobao_behavior", source, tmp_path / "all.parquet", progress=False)
    lengths = pc.list_value_length(pq.read_table(tmp_path / "all.parquet", columns=["history_items"])["history_items"])
    assert counts.read == 100_001 and 1_900 < counts.written <= 2 * 983
    assert 50 < pc.quantile(lengths, 0.5)[0].as_py() <= 74  # 74 with carts, favourites and purchases


def test_the_readme_of_the_data_names_every_layout():
    readme = (Path(__file__).parents[2] / "data" / "README.md").read_text()
    for name, raw in RAWS.items():
        line = next(line for line in readme.splitlines() if line.startswith(f"| `{name}` |"))
        for pattern in (pattern for layout in raw.layouts for pattern in layout.patterns):
            assert pattern in line or pattern.split("/")[1] in line, (name, pattern)
