"""Raw values to ids: stock and fused against the reference; the hash against TensorFlow's; every bad input refused."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.parsing import ids
from ctrlab.schema import Categorical, MultiHot, Sequence

WORDS = ("tea", "night", "lunch")
IMPLEMENTATIONS = ids.OP.ways


@pytest.fixture(params=IMPLEMENTATIONS)
def parse(request):
    return IMPLEMENTATIONS[request.param]


def texts(*rows):
    return tf.constant(list(rows), tf.string)


def lists(*rows, dtype=tf.string):
    return tf.ragged.constant(rows, dtype=dtype, ragged_rank=1, row_splits_dtype=tf.int64)


def plain(column):
    """A column of ids as lists of Python numbers."""
    return column.to_list() if isinstance(column, tf.RaggedTensor) else column.numpy().tolist()


def check(parse, columns, values):
    received = parse(columns, values)
    assert [plain(column) for column in received] == ids.OP.reference(columns, values)
    assert {column.dtype for column in received} == {tf.int64}


def test_the_definition_term_by_term():
    columns = [
        Categorical("a", encoding="vocabulary", vocabulary=WORDS),
        MultiHot("b", encoding="vocabulary", vocabulary=WORDS),
        Sequence("c", encoding="identity", buckets=9, max_length=2),
        Categorical("d", encoding="identity", buckets=9),
    ]
    values = [texts("night", ""), texts("tea;;lunch;soup;", ";"), texts("1;2;;3", "8"), tf.constant([0, 8])]
    assert ids.OP.reference(columns, values) == [[1, -1], [[0, 2, -1], []], [[2, 3], [8]], [0, 8]]
    hashed = tf.strings.to_hash_bucket_fast(["x", "yz"], 7).numpy().tolist()
    assert ids.OP.reference([MultiHot("e", buckets=7)], [texts("x;yz", "")]) == [[hashed, []]]


def test_the_lengths_of_lists_come_with_their_ids(parse):
    found = parse([Sequence("a", max_length=2), MultiHot("b")], [texts("x;y;z", "", ";x"), texts("x;;y;z", "x", "")])
    assert [column.row_lengths().numpy().tolist() for column in found] == [[2, 0, 1], [3, 1, 0]]
    assert {column.row_lengths().dtype for column in found} == {tf.int64}


ADVERSARIAL = {
    "empty texts": (MultiHot("a"), texts("", "", "")),
    "empty parts": (MultiHot("a"), texts(";", ";;a;;b;;", "a;", ";a")),
    "spaces are text": (MultiHot("a"), texts(" ", "a ;a; a", "\t;\n")),
    "the last of a list": (Sequence("a", max_length=2), texts("a;b;c", "a;b", "a", "", "a;;b;;c;;")),
    "a byte that is no letter": (Sequence("a", separator="\x02"), texts("a\x02b", "\x02", "a;b")),
    "a separator of two bytes": (MultiHot("a", separator="::"), texts("a::b", "a:::b", "::::", "a:")),
    "bytes that are no UTF-8": (MultiHot("a"), texts(b"\xff;\x00;\xc3", b"\x00")),
    "Unicode": (MultiHot("a"), texts("é;ß;日本", "日;本")),
    "a letter of Unicode between": (MultiHot("a", separator="é"), texts("aébéé", "Ã©")),
    "one bucket": (Categorical("a", buckets=1), texts("a", "")),
    "2^63 - 1 buckets": (Categorical("a", buckets=2**63 - 1), texts("a", "b", "")),
    "no rows": (MultiHot("a"), tf.zeros([0], tf.string)),
    "no rows of one": (Categorical("a"), tf.zeros([0], tf.string)),
    "lists of values": (MultiHot("a"), lists([b"a", b""], [], [b"a;b"])),
    "the last of lists of values": (Sequence("a", max_length=2), lists([b"a", b"b", b"c"], [], [b"a"], [b"a", b"b"])),
    "no values in any list": (Sequence("a"), lists([], [], [])),
    "no lists": (MultiHot("a"), tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.string), tf.constant([0], tf.int64))),
    "32-bit splits": (MultiHot("a"), lists([b"a"], [b"b", b"c"]).with_row_splits_dtype(tf.int32)),
    "a vocabulary": (Categorical("a", encoding="vocabulary", vocabulary=WORDS), texts("tea", "te", "teas", "", "lunch")),
    "lists of a vocabulary": (
        Sequence("a", encoding="vocabulary", vocabulary=WORDS, max_length=2),
        texts("tea;x;night", "", "x;x;x"),
    ),
    "integers": (Categorical("a", encoding="identity", buckets=5), tf.constant([0, 4, 2], tf.int64)),
    "integers of 32 bits": (Categorical("a", encoding="identity", buckets=5), tf.constant([0, 4, 2], tf.int32)),
    "ids already": (Categorical("a", buckets=5), tf.constant([0, 4, 2], tf.int32)),
    "lists of ids already": (Sequence("a", buckets=5, max_length=2), lists([0, 4, 3], [], [1], dtype=tf.int32)),
    "unknown words already": (Categorical("a", encoding="vocabulary", vocabulary=("x", "y")), tf.constant([1, -1, 0], tf.int32)),
    "lists of integers": (MultiHot("a", encoding="identity", buckets=5), lists([0, 4], [], [1], dtype=tf.int64)),
    "integers in text": (Categorical("a", encoding="identity", buckets=9), texts("0", " 7", "8 ", "+3", "\t4\n", "-0", "007")),
    "lists of integers in text": (Sequence("a", encoding="identity", buckets=9, max_length=2), texts("0;7;8", "", "3;;1")),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
def test_adversarial_columns(parse, case):
    column, values = ADVERSARIAL[case]
    check(parse, [column], [values])


@pytest.mark.parametrize("length", [*range(0, 140), 1_000, 4_097])
def test_the_hash_is_tensorflows_at_every_length(length):
    """FarmHash has a formula of its own for 0, 1-3, 4-7, 8-16, 17-32, 33-64 and more bytes, and blocks of 64 in the last."""
    rng = np.random.default_rng(length)
    words = [rng.integers(0, 256, length, dtype=np.uint8).tobytes() for _ in range(4)] + [b"\x00" * length, b"\xff" * length]
    for buckets in (2**63 - 1, 100_000, 7):
        expected = tf.strings.to_hash_bucket_fast(words, buckets)
        np.testing.assert_array_equal(ids.fused([Categorical("a", buckets=buckets)], [tf.constant(words)])[0], expected)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8), st.integers(1, 2**63 - 1))
def test_the_hash_is_tensorflows(words, buckets):
    expected = tf.strings.to_hash_bucket_fast(words, buckets)
    np.testing.assert_array_equal(ids.fused([Categorical("a", buckets=buckets)], [tf.constant(words, tf.string)])[0], expected)


@st.composite
def batches(draw):
    rows = draw(st.integers(0, 6))
    columns, values = [], []
    for number in range(draw(st.integers(1, 4))):
        separator = draw(st.sampled_from([";", "\x02", "ab", "é"]))
        part = st.one_of(st.sampled_from(["", "tea", "night", "a", "b"]), st.text(max_size=20))
        encoding = draw(st.sampled_from(["hash", "vocabulary", "identity"]))
        if encoding == "identity":
            part = st.one_of(st.just(""), st.integers(0, 8).map(str))
        options = {"encoding": encoding, "buckets": 9, "vocabulary": WORDS if encoding == "vocabulary" else ()}
        kind = draw(st.sampled_from(["categorical", "multi_hot", "sequence", "ragged"]))
        if kind == "categorical":
            part = part.filter(bool)  # no empty identity
            columns.append(Categorical(f"c{number}", **options))
            values.append(tf.constant([draw(part) for _ in range(rows)], tf.string))
            continue
        cells = [draw(st.lists(part, max_size=7)) for _ in range(rows)]
        if kind == "multi_hot":
            columns.append(MultiHot(f"c{number}", separator=separator, **options))
        else:
            columns.append(Sequence(f"c{number}", separator=separator, max_length=draw(st.integers(1, 5)), **options))
        if kind == "ragged":
            cells = [[p.encode() for p in cell if p or encoding != "identity"] for cell in cells]
            splits = np.cumsum([0, *map(len, cells)])
            flat = tf.constant([p for cell in cells for p in cell], tf.string)
            values.append(tf.RaggedTensor.from_row_splits(flat, splits))
        else:
            values.append(tf.constant([separator.join(cell) for cell in cells], tf.string))
    return columns, values


@settings(max_examples=150, deadline=None)
@given(batches())
def test_fused_is_the_reference_on_any_batch(batch):
    check(ids.fused, *batch)


@settings(max_examples=25, deadline=None)
@given(batches())
def test_stock_is_the_reference_on_any_batch(batch):
    check(ids.baseline, *batch)
    check(ids.stacked, *batch)


def test_fused_is_stock_on_a_whole_schema(small_batches):
    """Every data set's own columns, as ragged lists (Parquet) and as the text that their parts join to (CSV)."""
    for name in ("food_delivery", "taobao", "amazon_reviews"):
        schema, ((features, _), *_) = small_batches(name)
        ragged = [features[c.name] for c in schema.id_columns]
        text = [
            tf.strings.reduce_join(v, axis=1, separator=c.separator) if isinstance(v, tf.RaggedTensor) else v
            for c, v in zip(schema.id_columns, ragged)
        ]
        for values in (ragged, text):
            expected, received = ids.baseline(schema.id_columns, values), ids.fused(schema.id_columns, values)
            assert [plain(column) for column in received] == [plain(column) for column in expected]


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    columns = [Categorical("a"), Sequence("b", max_length=2), MultiHot("c")]

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string),
            tf.TensorSpec([None], tf.string),
            tf.RaggedTensorSpec([None, None], tf.string),
        ]
    )
    def traced(*values):
        out = ids.fused(columns, values)
        assert [c.shape.as_list() for c in out] == [[None], [None, None], [None, None]]
        return out

    values = [texts("a", "b"), texts("a;b;c", ""), lists([b"a"], [])]
    out = traced(*values)
    assert [plain(c) for c in out] == ids.OP.reference(columns, values)
    assert out[1].row_splits.dtype == out[2].row_splits.dtype == tf.int64
    sized = tf.function(lambda a, b: ids.fused(columns[:2], [a, b]))
    out = sized.get_concrete_function(tf.TensorSpec([7], tf.string), tf.TensorSpec([None], tf.string)).structured_outputs
    assert [c.shape.as_list() for c in out] == [[7], [7, None]]


OUT_OF_RANGE = {
    "an integer": (Categorical("a", encoding="identity", buckets=5), tf.constant([0, 5], tf.int64), "received 5 in row 1"),
    "a negative one": (Categorical("a", encoding="identity", buckets=5), tf.constant([-1, 0], tf.int64), "received -1 in row 0"),
    "in a list": (MultiHot("a", encoding="identity", buckets=5), lists([0, 1], [2, 7, 9], dtype=tf.int64), "received 7 in row 1"),
    "in text": (Categorical("a", encoding="identity", buckets=5), texts("4", "5"), r"received b?'5' in row 1"),
    "in a list of text": (MultiHot("a", encoding="identity", buckets=5), texts("1;2", "3;9;8"), r"received b?'9' in row 1"),
    "no number": (MultiHot("a", encoding="identity", buckets=5), texts("1", "3;x"), r"received b?'x' in row 1"),
    "an empty cell": (Categorical("a", encoding="identity", buckets=5), texts("", "1"), r"received b?'' in row 0"),
    "past 64 bits": (Categorical("a", encoding="identity", buckets=5), texts("1", "9" * 30), r"received b?'9{30}' in row 1"),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
@pytest.mark.parametrize("parse", [ids.OP.reference, ids.fused])
def test_bad_identities_are_refused_with_column_and_row(parse, case):
    column, values, message = OUT_OF_RANGE[case]
    with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match=rf"column a must be .*in \[0, 5\); {message}"):
        parse([column], [values])


def test_of_several_faults_the_first_is_named():
    rng = np.random.default_rng(0)
    column = Categorical("a", encoding="identity", buckets=5)
    for _ in range(5):
        values = rng.integers(0, 5, 5_000)
        bad = np.sort(rng.choice(5_000, 3, replace=False))
        values[bad] = [7, 8, 9]
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"received 7 in row {bad[0]}\\."):
            ids.fused([column], [tf.constant(values)])


RAW = dict(
    values=[tf.constant(["a", "b"]), tf.constant(["c"])],
    splits=[[0, 1, 1]],
    names=["one", "two"],
    layouts=["single", "ragged"],
    separators=["", ""],
    max_lengths=[0, 0],
    encodings=["hash", "hash"],
    buckets=[3, 3],
    words=[],
    C=2,
    L=1,
)
REFUSED = {
    "a matrix": (dict(values=[tf.constant([["a"]]), tf.constant(["c"])]), "rank 1|must be a vector"),
    "other rows": (dict(values=[tf.constant(["a"]), tf.constant(["c"])]), "same rows|must be equal"),
    "splits that start late": (dict(splits=[[1, 1, 1]]), "column two must start at 0; received 1"),
    "splits that go down": (dict(splits=[[0, 2, 1]]), "not go down; received 1 after 2 in row 1"),
    "splits that end early": (dict(splits=[[0, 0, 0]]), "end at its 1 ids; received 0"),
    "splits that go past the end": (dict(splits=[[0, 1, 9]]), "end at its 1 ids; received 9"),
    "no splits": (dict(splits=[]), "splits for each ragged column"),
    "splits of nobody": (dict(splits=[[0, 1, 1]] * 2), "ragged column and no others"),
    "no bucket": (dict(buckets=[3, 0]), "two must have at least one bucket.*received 0"),
    "a negative length": (dict(max_lengths=[0, -1]), "no negative length; received 3 and -1"),
    "too few encodings": (dict(encodings=["hash"]), "one length, encoding and number of buckets a column"),
    "too few names": (dict(names=["one"]), "one name, layout and separator a column; received 1"),
    "too few layouts": (dict(layouts=["single"], L=0, splits=[]), "one name, layout|one layout a column"),
    "another number of outputs": (dict(C=3), "one output of ids per column"),
    "another number of lists": (dict(L=2), "one of splits per list"),
    "a list without a separator": (dict(layouts=["joined", "ragged"], L=2), "joined column is text and has a separator"),
    "a separator of no list": (dict(separators=[";", ""]), "others have none; received layout single"),
    "integers to hash": (dict(values=[tf.constant([1, 2], tf.int64), tf.constant(["c"])]), "must be text to be encoded by hash"),
    "words of no vocabulary": (dict(words=["a"]), "Each word must belong to a vocabulary; received 1 more"),
    "a vocabulary without words": (
        dict(encodings=["hash", "vocabulary"], words=["a"]),
        "two must have a word a bucket; received 1 for 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    change, message = REFUSED[case]
    given = RAW | change
    given = given | {"splits": [tf.constant(s, tf.int64) for s in given["splits"]]}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_parse_ids(**given)


@pytest.mark.parametrize("parse", [ids.OP.reference, *IMPLEMENTATIONS.values()])
def test_what_can_be_seen_before_running_is_refused_in_one_sentence(parse):
    with pytest.raises(CtrlabError, match=r"one entry .*received 2 for 1"):
        parse([Categorical("a")], [texts("a"), texts("b")])
