"""Lists of every layout of Arrow are the same lists, from memory and from Parquet."""

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.data.tables import conform
from ctrlab.schema import Label, MultiHot, NumericList, Schema, frames

SCHEMA = Schema("own", (Label("click"), MultiHot("tags"), NumericList("xs"), MultiHot("codes", encoding="identity", buckets=9)))
PAIRS = {
    "tags": st.tuples(st.sampled_from("abc"), st.sampled_from("abc")),
    "xs": st.tuples(st.sampled_from([0.5, 2.0]), st.sampled_from([0.5, 2.0])),
    "codes": st.tuples(st.integers(0, 8), st.integers(0, 8)),
}
NOTHING = {"tags": [], "xs": [0.0], "codes": []}
TYPES = {"tags": pa.string(), "xs": pa.float32(), "codes": pa.int64()}
INNER = {
    "tags": [pa.string(), pa.large_string(), pa.string_view(), "dictionary"],
    "xs": [pa.float64(), pa.float32(), "dictionary"],
    "codes": [pa.int16(), pa.int64(), pa.uint32(), "dictionary"],
}
LAYOUTS = {
    "list": pa.ListArray,
    "large list": pa.LargeListArray,
    "view": pa.ListViewArray,
    "large view": pa.LargeListViewArray,
    "fixed size": pa.FixedSizeListArray,
}


def lists(layout: str, pairs: list, name: str, inner) -> pa.Array:
    """The pairs as lists; a missing one (None) has entries behind its mask, which are none of a list."""
    filled = [("ab" if name == "tags" else (1, 2)) if pair is None else pair for pair in pairs]
    missing = pa.array([pair is None for pair in pairs])
    if "view" in layout:  # whose lists lie in any order
        filled = filled[::-1]
    entries = pa.array([entry for pair in filled for entry in pair], TYPES[name] if inner == "dictionary" else inner)
    entries = entries.dictionary_encode() if inner == "dictionary" else entries
    make, starts = LAYOUTS[layout], list(range(0, 2 * len(pairs), 2))
    if layout == "fixed size":
        return make.from_arrays(entries, 2, mask=missing)
    if "view" in layout:
        return make.from_arrays(starts[::-1], [2] * len(pairs), entries, mask=missing)
    return make.from_arrays([*starts, 2 * len(pairs)], entries, mask=missing)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([*LAYOUTS]), st.sampled_from([*PAIRS]))
def test_lists_of_every_layout_are_the_same_lists(tmp_path_factory, draw, layout, name):
    pairs = draw.draw(st.lists(st.none() | PAIRS[name], min_size=1, max_size=4))
    column = lists(layout, pairs, name, draw.draw(st.sampled_from(INNER[name])))
    good = {"click": [1.0], "tags": [["a"]], "xs": [[1.0]], "codes": [[1]]}
    table = pa.table({key: column if key == name else pa.array(values * len(pairs)) for key, values in good.items()})
    wanted = [NOTHING[name] if pair is None else [*pair] for pair in pairs]

    def entries(found):
        return [[entry.decode() if isinstance(entry, bytes) else entry for entry in row] for row in found]

    for start in {0, len(pairs) // 2}:
        part = conform(frames.table(table.slice(start)), SCHEMA, "The table")
        assert [row or NOTHING[name] for row in part[name].to_pylist()] == wanted[start:]
    path = tmp_path_factory.getbasetemp() / "lists.parquet"
    pq.write_table(table, path)
    with data.explained():
        [(features, _)] = data.read(path, SCHEMA, batch_size=9)
    assert entries(features[name].to_list()) == wanted
