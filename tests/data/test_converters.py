"""The converters on small raw files written here: what each layout becomes, and that results appear whole or not at all."""

import gzip
import io
import json
import resource
import subprocess
import sys
import tarfile

import pyarrow.parquet as pq
import pytest

from ctrlab.data import outputs
from ctrlab.data.arrow import arrow_schema
from ctrlab.data.convert import convert, convert_real
from ctrlab.data.sets import RAWS, census_income
from ctrlab.errors import BadData, CtrlabError, UnknownName

CRITEO = "\t".join(["1", "2", "-3", "", *["7"] * 10, "68fd1e64", "", *["a"] * 24])
DIN = "1\tu1\tm1\tc1\tm2\x02m3\tc2\x02c3"
NEGATIVE = "m4\x02m5\tc4\x02c5"
TAOBAO = "0,1,p,a,c,k,u,b,1,2,3,4,5,6,7,8,9,10|11,12,49"
CENSUS = dict.fromkeys(census_income.RAW_NAMES, "NA") | dict.fromkeys(
    ["age", "wage_per_hour", "capital_gains", "capital_losses", "stock_dividends", "num_emp", "weeks_worked", "income_50k"], "1"
)


def rows_of(path):
    return pq.read_table(path).to_pylist()


@pytest.fixture
def raw(tmp_path):
    """Writes a raw file of the lines (or bytes) and gives its path."""

    def write(name, lines):
        path = tmp_path / "raw" / name
        path.parent.mkdir(exist_ok=True)
        data = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "rows.parquet"


def test_criteo_empty_fields_are_missing(raw, out):
    counts = convert("criteo", raw("train.txt", [CRITEO, CRITEO]), out, progress=False)
    assert (counts.read, counts.written, counts.rejected) == (2, 2, 0)
    row = rows_of(out)[0]
    assert (row["label"], row["I1"], row["I2"], row["I3"], row["C1"], row["C2"]) == (1.0, 2.0, -3.0, None, "68fd1e64", None)
    assert pq.read_schema(out).equals(arrow_schema(RAWS["criteo"].schema))
    assert list(out.parent.iterdir()) == [out]


def test_gzip_crlf_bom_and_a_last_line_without_newline_read_the_same(raw, out):
    plain = f"{CRITEO}\n{CRITEO}\n".encode()
    variants = [plain, plain[:-1], plain.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + plain]
    results = []
    for i, data in enumerate(variants):
        for name in (f"{i}.tsv", f"{i}.tsv.gz"):
            convert("criteo", raw(name, data), out, progress=False)
            results.append(rows_of(out))
    assert len(results[0]) == 2
    assert all(result == results[0] for result in results)


def test_several_sources_follow_one_another_and_limit_stops(raw, out):
    files = [raw("a.tsv", [CRITEO] * 3), raw("b.tsv", ["0" + CRITEO[1:]] * 3)]
    convert("criteo", files, out, progress=False)
    assert [row["label"] for row in rows_of(out)] == [1, 1, 1, 0, 0, 0]
    counts = convert("criteo", files, out, progress=False, limit=4)
    assert (counts.read, counts.written, len(rows_of(out))) == (4, 4, 4)


@pytest.mark.parametrize(
    "line, rule, received",
    [
        (CRITEO + "\tx", "wrong number of columns", "expected 40, got 41"),
        ("", "wrong number of columns", "expected 40, got 1"),
        (CRITEO.replace("68fd1e64", "\udcff"), "not UTF-8", "byte 0xff"),
        (CRITEO.replace("68fd1e64", "a\rb"), "a carriage return inside the line", ""),
        ("2" + CRITEO[1:], "label is not 0 or 1", "got '2'"),
        (CRITEO[1:], "label is not 0 or 1", "got ''"),
        (CRITEO.replace("-3", "three"), "I2 is not a number", "got 'three'"),
        (CRITEO.replace("-3", "nan"), "I2 is not a number", "got 'nan'"),
        (CRITEO.replace("-3", "1e999"), "I2 is not a number", "got '1e999'"),
    ],
)
def test_a_bad_row_goes_to_the_rejects_with_line_and_reason(raw, out, line, rule, received):
    bad = line.encode("utf-8", "surrogateescape")
    source = raw("t.tsv", b"\n".join([CRITEO.encode(), bad, CRITEO.encode(), CRITEO.encode()]))
    counts = convert("criteo", source, out, progress=False)
    assert (counts.read, counts.written, counts.rejected) == (4, 3, 1)
    assert dict(counts.reasons) == {rule: 1}
    file, number, reason, text = out.with_name("rows.parquet.rejects.tsv").read_bytes().split(b"\t", 3)
    assert (file.decode(), number, text) == (str(source), b"2", bad + b"\n")
    assert reason.decode().startswith(rule) and received in reason.decode()
    convert("criteo", raw("good.tsv", [CRITEO]), out, progress=False)
    assert list(out.parent.iterdir()) == [out], "a clean run leaves no rejects of an earlier one"


def test_census_by_header_or_as_uci_has_it(raw, out):
    never, married = CENSUS | {"marital_stat": "Never married"}, CENSUS | {"marital_stat": "Divorced", "income_50k": "0"}
    names = [*census_income.RAW_NAMES[::-1]]
    convert("census_income", raw("h.csv", [",".join(names), *(",".join(r[n] for n in names) for r in (never, married))]), out)
    by_header = rows_of(out)
    assert [(r["never_married"], r["income_50k"], r["education"]) for r in by_header] == [(1, 1, "NA"), (0, 0, "NA")]
    uci = [r | {"instance_weight": "1700.09", "year": "95"} for r in (never, married)]
    uci[0]["income_50k"], uci[1]["income_50k"] = "50000+.", "- 50000."
    convert("census_income", raw("census-income.data", [", ".join(r[n] for n in census_income.UCI_NAMES) for r in uci]), out)
    assert rows_of(out) == by_header
    unknown = ",".join((never | {"marital_stat": "?"})[n] for n in census_income.RAW_NAMES)
    good = ",".join(never[n] for n in census_income.RAW_NAMES)
    counts = convert("census_income", raw("u.csv", [good, unknown, good]), out)
    assert dict(counts.reasons) == {"marital_stat is unknown": 1}


def test_taobao_splits_tags_and_keeps_price_in_range(raw, out):
    bad = [TAOBAO[:-2] + price for price in ("50", "", "+5")]
    counts = convert("taobao", raw("t.csv", [TAOBAO] * 4 + bad), out, progress=False)
    row = rows_of(out)[0]
    assert (row["clk"], row["buy"], row["tag_category_list"], row["tag_brand_list"], row["price"]) == (
        0,
        1,
        ["10", "11"],
        ["12"],
        49,
    )
    assert sum(counts.reasons.values()) == counts.rejected == 3
    assert set(counts.reasons) == {"price is not in [0, 50)", "price is not a number"}


def test_food_delivery_lists_and_their_defaults(raw, out):
    schema = RAWS["food_delivery"].schema
    values = {c.name: {"label": "1", "numeric": "2.5", "numeric_list": "3;4.5"}.get(c.kind, "x;y") for c in schema.columns}
    full, empty = list(values.values()), ["1"] + [""] * 38
    convert("food_delivery", raw("f.csv", [",".join(values), ",".join(full), ",".join(empty)]), out, progress=False)
    first, second = rows_of(out)
    assert (first["price_list"], first["brand_id_list"], first["rank_7"]) == ([3.0, 4.5], ["x", "y"], 2.5)
    assert (second["price_list"], second["hours_list"], second["brand_id_list"], second["rank_7"]) == ([0.0], [0.0], [], None)


@pytest.mark.parametrize(
    "text, rule", [("3;;4", "price_list has an empty item"), ("3;x", "price_list has an item that is not a number")]
)
def test_food_delivery_rejects_lists_with_bad_items(raw, out, text, rule):
    names = [column.name for column in RAWS["food_delivery"].schema.columns]
    good = ["1"] + [""] * 38
    bad = [text if name == "price_list" else field for name, field in zip(names, good)]
    counts = convert("food_delivery", raw("f.csv", map(",".join, (good, bad, good))), out, progress=False)
    assert dict(counts.reasons) == {rule: 1}
    assert len(rows_of(out)) == 2


def test_din_layout_joins_the_negatives_line_by_line(raw, out):
    source = raw("local_train_splitByUser.gz", [DIN, DIN.replace("1\t", "0\t", 1).replace("m2\x02m3\tc2\x02c3", "\t")])
    raw("local_train_splitByUser_neg.gz", [NEGATIVE, "\t"])
    convert("rees46", source, out, progress=False)
    first, second = rows_of(out)
    assert list(first.values()) == [1, "u1", "m1", "c1", ["m2", "m3"], ["c2", "c3"], ["m4", "m5"], ["c4", "c5"]]
    assert second["history_items"] == second["negative_categories"] == []


def test_din_layout_rejects_histories_of_different_lengths(raw, out):
    source = raw("local_test_splitByUser", [DIN, DIN, DIN + "\x02c9", DIN, DIN, "broken"])
    raw("local_test_splitByUser_neg", [NEGATIVE, NEGATIVE, NEGATIVE, "m4\tc4", "m4", "broken"])
    with pytest.raises(BadData, match=r"raw rees46 .*4 of the first 6"):
        convert("rees46", source, out, progress=False)
    assert list(out.parent.iterdir()) == []
    source = raw("local_test_splitByUser", [DIN] * 5 + [DIN + "\x02c9"])
    raw("local_test_splitByUser_neg", [NEGATIVE] * 4 + ["m4", NEGATIVE])
    counts = convert("rees46", source, out, progress=False)
    assert dict(counts.reasons) == {"histories of different lengths": 1, "wrong number of columns": 1}
    assert f"{source}_neg\t5\t" in out.with_name("rows.parquet.rejects.tsv").read_text()


def test_din_layout_draws_negatives_where_there_are_none(raw, out):
    odd = [DIN + "\x02c9", "1\tu\tm1\tc1\t\t", "broken", DIN.replace("m2", "m7").replace("c2", "c7")]
    counts = convert("amazon_reviews", raw("local_train_splitByUser", [DIN] * 50 + odd), out, progress=False)
    assert (counts.read, counts.rejected) == (54, 2)
    rows = rows_of(out)
    assert [len(row["negative_items"]) for row in rows] == [2] * 50 + [0, 2]
    drawn = [pair for row in rows for pair in zip(row["history_items"], row["negative_items"], row["negative_categories"])]
    assert all(negative != item and category == "c" + negative[1:] for item, negative, category in drawn)
    assert {negative for _, negative, _ in drawn} <= {"m2", "m3", "m7"}
    with pytest.raises(BadData, match=r"at least two .*have 1"):
        convert("amazon_reviews", raw("local_train_splitByUser", ["1\tu\tm1\tc1\tm1\tc1"]), out, progress=False)


def reviews(raw, lines=()):
    """Three users of 4, 2 and 1 reviews, in no order of time; item descriptions as JSON and as a Python literal."""
    events = [("a", "m3", 30), ("b", "m1", 5), ("a", "m1", 10), ("a", "m4", 40), ("a", "m2", 20), ("b", "m2", 9), ("c", "m1", 1)]
    made = [json.dumps({"reviewerID": u, "asin": m, "unixReviewTime": t}) for u, m, t in events]
    items = [("m1", "c1"), ("m2", "c2"), ("m3", "c3")]
    described = [{"asin": m, "categories": [["Books", c], ["Other"]]} for m, c in items]
    meta = raw("meta_X.json.gz", [repr(described[0]), *map(json.dumps, described[1:])])
    return [raw("reviews_X.json.gz", [*made, *lines]), meta]


def test_review_json_gives_the_last_pair_of_each_user(raw, out, monkeypatch):
    counts = convert("amazon_reviews", reviews(raw, ["{", '{"asin": "m1"}']), out, progress=False)
    assert (counts.read, counts.rejected, counts.written) == (12, 2, 4)
    rows = rows_of(out)
    by_user = {user: [row for row in rows if row["user"] == user] for user in "ab"}
    for user, history, item in (("a", ["m1", "m2", "m3"], "m4"), ("b", ["m1"], "m2")):
        negative, positive = by_user[user]
        assert (negative["label"], positive["label"]) == (0, 1)
        assert positive["item"] == item != negative["item"]
        assert negative["history_items"] == positive["history_items"] == history
        assert positive["history_categories"] == ["c" + m[1:] for m in history]
        assert all(n != m for n, m in zip(positive["negative_items"], history))
    assert by_user["a"][1]["category"] == "default_cat", "an item without a description"
    first = out.read_bytes()
    convert("amazon_reviews", reviews(raw, ["{", '{"asin": "m1"}']), out, progress=False)
    assert out.read_bytes() == first, "the draws have a fixed seed"
    whole = rows_of(out)
    monkeypatch.setattr("ctrlab.data.raw.events.PARTITION_BYTES", 40)
    convert("amazon_reviews", reviews(raw), out, progress=False)
    told = ("user", "label", "history_items")
    assert {tuple(map(str, map(row.get, told))) for row in rows_of(out)} == {tuple(map(str, map(row.get, told))) for row in whole}
    with pytest.raises(BadData, match=r"give meta_<shop>\.json"):
        convert("amazon_reviews", reviews(raw)[:1], out, progress=False)


def test_taobao_behavior_keeps_views_only(raw, out):
    lines = ["1,i1,c1,pv,3", "1,i2,c2,buy,1", "1,i3,c3,pv,2", "1,i4,c4,pv,4", "2,i1,c1,pv,1", "1,i5,c5,look,4"]
    counts = convert("taobao_behavior", raw("u.csv", lines), out, progress=False)
    assert (counts.written, dict(counts.reasons)) == (2, {"behaviour is unknown": 1})
    assert [(r["label"], r["history_items"]) for r in rows_of(out)] == [(0, ["i3", "i1"]), (1, ["i3", "i1"])]


def test_real_layout_holds_out_a_fifth_and_never_parts_a_pair(raw, tmp_path):
    source = raw("train.tsv.gz", [CRITEO.replace("\t2\t", f"\t{i}\t", 1) for i in range(2_000)])
    source.parent.rename(tmp_path / "criteo_kaggle")
    (tmp_path / "out").mkdir()
    counts = convert_real("criteo", tmp_path, tmp_path / "out", progress=False)
    train, test = ([row["I1"] for row in rows_of(tmp_path / "out" / f"{part}.parquet")] for part in ("train", "test"))
    assert counts.written == 2_000 and 300 < len(test) < 500
    assert sorted(train + test) == list(range(2_000)) and train == sorted(train)
    users = [json.dumps({"reviewerID": f"u{i // 2}", "asin": f"m{i % 7}", "unixReviewTime": i}) for i in range(400)]
    reviews(raw, users)[0].parent.rename(tmp_path / "amazon_reviews")
    convert_real("amazon_reviews", tmp_path, tmp_path / "out", progress=False)
    for part in ("train", "test"):
        rows = rows_of(tmp_path / "out" / f"{part}.parquet")
        assert [r["user"] for r in rows[::2]] == [r["user"] for r in rows[1::2]]


BAD_FILES = {
    "missing": (None, "There is no file"),
    "empty": (b"", "is empty"),
    "empty inside": (gzip.compress(b""), "is empty"),
    "truncated": (gzip.compress(CRITEO.encode() * 9_000)[:-9], "truncated or damaged gzip"),
    "truncated in its first line": (
        gzip.compress(CRITEO.encode() * 9_000)[:40],
        "truncated or damaged gzip file, and not one line",
    ),
    "damaged": (gzip.compress(CRITEO.encode() * 9_000)[:200] + b"xx" * 99, "truncated or damaged gzip"),
    "zip": (b"PK\x03\x04rest", "is an archive"),
    "another format": (b"a,b,c\n" * 9, "doesn't look like raw criteo data: 9 of the first 9 rows"),
    "binary": (bytes(range(256)) * 99, "doesn't look like raw criteo data"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_sentence_and_leaves_nothing(raw, out, case):
    data, message = BAD_FILES[case]
    source = raw("x", data or b"")
    if data is None:
        source.unlink()
    out.write_text("kept")
    with pytest.raises(BadData, match=message) as caught:
        convert("criteo", source, out, progress=False)
    assert "\n" not in str(caught.value) and str(source) in str(caught.value)
    assert list(out.parent.iterdir()) == [out] and out.read_text() == "kept"


def test_a_tar_archive_is_called_one(raw, out):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(raw("train.txt", [CRITEO]), "train.txt")
    with pytest.raises(BadData, match="is an archive"):
        convert("criteo", raw("dac.tar.gz", buffer.getvalue()), out, progress=False)


def test_other_bad_input(raw, out, tmp_path):
    source = raw("t.tsv", [CRITEO])
    with pytest.raises(UnknownName, match="Did you mean 'criteo'"):
        convert("critoe", source, out)
    with pytest.raises(BadData, match=r"can't be read: Is a directory"):
        convert("criteo", tmp_path, out, progress=False)
    with pytest.raises(CtrlabError, match="is a folder"):
        (tmp_path / "folder.parquet").mkdir()
        convert("criteo", source, tmp_path / "folder.parquet", progress=False)
    with pytest.raises(BadData, match=r"ends with none of \.csv, .*give it one of these endings"):
        convert("criteo", source, tmp_path / "rows", progress=False)
    with pytest.raises(CtrlabError, match=r"t\.tsv is not one"):
        convert("criteo", source, source / "rows.parquet", progress=False)
    with pytest.raises(CtrlabError, match="one of the raw files"):
        convert("criteo", source, source, progress=False)
    with pytest.raises(CtrlabError, match="limit must be at least 1"):
        convert("criteo", source, out, limit=0)
    for negatives, message in (([NEGATIVE], "ends after line 1"), ([NEGATIVE] * 3, "goes on in line 3")):
        raw("local_train_splitByUser_neg", negatives)
        with pytest.raises(BadData, match=message):
            convert("rees46", raw("local_train_splitByUser", [DIN] * 2), out, progress=False)
    with pytest.raises(BadData, match=r"expected criteo_kaggle/train.tsv, or"):
        convert_real("criteo", tmp_path, tmp_path / "out")
    assert list(out.parent.iterdir()) == []


def test_no_space_and_ctrl_c_leave_nothing(raw, out, monkeypatch):
    source = raw("t.tsv", [CRITEO.replace("\t2\t", f"\t{i}\t", 1) for i in range(20_000)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(CtrlabError, match=r"rows.parquet .*too large; nothing") as caught:
            convert("criteo", source, out, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(caught.value)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs.ParquetFile, "keep", stopped)
    with pytest.raises(KeyboardInterrupt):
        convert("criteo", source, out, progress=False)
    assert list(out.parent.iterdir()) == []


MEASURE = """
import re, sys
from ctrlab.data.convert import convert
convert("criteo", sys.argv[1], sys.argv[1] + ".parquet", progress=False)
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory from Linux's /proc")
def test_memory_does_not_grow_with_the_file(raw):
    def peak_mib(rows):
        source = raw(f"{rows}.tsv", (CRITEO + "\n").encode() * rows)
        return int(subprocess.run([sys.executable, "-c", MEASURE, source], capture_output=True, check=True, text=True).stdout)

    assert peak_mib(600_000) < peak_mib(150_000) + 40  # the larger file is 52 MiB larger, its rows as text in memory 200
