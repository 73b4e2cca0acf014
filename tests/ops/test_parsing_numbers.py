"""Raw values to numbers: stock and fused against the reference, as near as roundings leave them."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.parsing import numbers
from ctrlab.ops.references import numbers as definition
from ctrlab.schema import Numeric, NumericList

IMPLEMENTATIONS = {"baseline": numbers.baseline, "fused": numbers.fused}
TRANSFORMS = {"none": {}, "log1p": {"low": -1.5}, "minmax": {"low": -1.0, "high": 3.0}}


@pytest.fixture(params=IMPLEMENTATIONS)
def parse(request):
    return IMPLEMENTATIONS[request.param]


def texts(*rows):
    return tf.constant(list(rows), tf.string)


def lists(*rows):
    return tf.ragged.constant(rows, dtype=tf.float32, ragged_rank=1, row_splits_dtype=tf.int64)


UNIT = 2.0**-24  # what rounding to float32 takes of a number, or adds to it, at most
IN_A_TRANSFORM = {"none": 0, "minmax": 2, "log1p": 6}  # roundings after x - low; of log1p, 3.8 were seen in a million numbers


def parts(column, cell):
    """The numbers of a cell, float64 [n]."""
    cell = cell.numpy() if isinstance(cell, tf.Tensor) else cell
    if isinstance(cell, bytes):
        cell = [definition.number(part) for part in cell.split(column.separator.encode()) if part]
    return np.atleast_1d(np.asarray(cell, np.float64))


def means(columns, values):
    """For each cell, float64 [B, C]: the mean of its numbers, their count, and the mean of their magnitudes."""
    cells = [[parts(column, cell) for cell in value] for column, value in zip(columns, values)]
    sizes = np.array([[len(x) for x in cell] for cell in cells], np.float64).T
    magnitudes = np.array([[np.abs(x).sum() / max(1, len(x)) for x in cell] for cell in cells], np.float64).T
    return numbers.OP.reference([replace(column, transform="none") for column in columns], values), sizes, magnitudes


def transformed(columns, x):
    """The definition's transform of numbers [B, C], which never decreases."""
    numeric = [Numeric(c.name, transform=c.transform, low=c.low, high=c.high) for c in columns]
    return numbers.OP.reference(numeric, list(x.T))


def check(parse, columns, values):
    """Each cell is as near as roundings leave it: of the n numbers as they are read, of their sum as they are added up (each
    time a unit of all that has come, at most), of the division; then of the transform, which carries on what it received."""
    received = parse(columns, values)
    assert received.dtype == tf.float32
    with np.errstate(over="ignore", invalid="ignore"):
        expected = numbers.OP.reference(columns, values)
        mean, sizes, magnitudes = means(columns, values)
        apart = (sizes + 1) * UNIT / (1 - (sizes + 1) * UNIT) * magnitudes + np.finfo("f4").tiny
        lows = np.array([column.low for column in columns])
        roundings = np.array([IN_A_TRANSFORM[column.transform] for column in columns])
        apart += (roundings > 0) * 2 * UNIT * (np.abs(mean) + apart + np.abs(lows))  # of `low`, and of what it is taken from
        least, most = transformed(columns, mean - apart), transformed(columns, mean + apart)
        slack = roundings * UNIT * np.maximum(np.abs(least), np.abs(most))
        allowed = np.maximum(most - expected, expected - least) + slack
    plain = np.isfinite(magnitudes)
    np.testing.assert_array_equal(np.where(plain, 0, received), np.where(plain, 0, expected))
    wrong = plain & ~(np.abs(received - expected) <= allowed)
    assert not wrong.any(), f"{np.asarray(received)[wrong]} is not {expected[wrong]} to {allowed[wrong]}"


def test_the_definition_term_by_term():
    columns = [
        NumericList("a"),
        Numeric("b", transform="log1p", low=1.0),
        NumericList("c", transform="minmax", low=1.0, high=3.0),
    ]
    values = [["1;2;6", ";;", "-0"], [0.5, 1.0, 3.0], ["2", "1;;5", ""]]
    #   a list's mean; log1p(max(x - 1, 0)); (x - 1) / 2
    expected = [[3, 0, 0.5], [0, 0, 1], [0, np.log(3), -0.5]]
    np.testing.assert_allclose(numbers.OP.reference(columns, values), expected)


ADVERSARIAL = {
    "decimals": texts("1;2.5", "-3", ".5;5.", "0.1;0.2;0.3"),
    "empty texts": texts("", "", ""),
    "empty parts": texts(";", ";1;;2;", "1;"),
    "white space": texts(" 1; 2 ", "\t3\n;4", "5\r"),
    "exponents": texts("1e3;1E-3", "1e+2;2", "1e30", "1e-46"),
    "hexadecimals": texts("0x10;0X1f", "-0x1.8p3"),
    "neither finite nor numbers": texts("inf", "nan;1", "-Infinity;1", "inf;-inf"),
    "zeros": texts("-0", "0;-0", "0.000", "-0;-0"),
    "many digits": texts("0.1000000000000000055511151231257827;1", "123456789012345678901234567890"),
    "one number that swallows others": texts("16777216;1;1", "1;1;16777216"),
    "no rows": tf.zeros([0], tf.string),
    "lists of numbers": lists([1, 2.5], [], [-3]),
    "no numbers in any list": lists([], []),
    "32-bit splits": lists([1], [2, 3]).with_row_splits_dtype(tf.int32),
    "numbers": tf.constant([1.0, -2.0, 0.0]),
    "numbers that are none": tf.constant([np.nan, np.inf, -np.inf], tf.float32),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_adversarial_columns(parse, case, transform):
    values = ADVERSARIAL[case]
    single = isinstance(values, tf.Tensor) and values.dtype == tf.float32
    column = (Numeric if single else NumericList)("a", transform=transform, **TRANSFORMS[transform])
    check(parse, [column], [values])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("text", ["315153.16;543134.0;-435626.0;-419702.0", "1;2.5", "1e6", "3;4;5;6;7;8"])
@pytest.mark.parametrize("off", [1e-4, -1e-4])
def test_the_check_sees_a_mean_that_is_off_by_little_of_what_was_added_up(transform, text, off):
    column, value = [NumericList("a", transform=transform, **TRANSFORMS[transform])], [texts(text)]
    mean, _, magnitudes = means(column, value)

    def answer(x):
        return lambda *_: tf.constant(transformed(column, x), tf.float32)

    check(answer(mean), column, value)
    with pytest.raises(AssertionError, match="is not"):
        check(answer(mean + off * magnitudes), column, value)


@pytest.mark.parametrize("wrong", [0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("text", ["inf", "nan", "-inf;1", "1;2"])
def test_the_check_sees_what_is_finite_and_what_is_not(wrong, text):
    column, value = [NumericList("a")], [texts(text)]
    if not np.array_equal(numbers.OP.reference(column, value), [[wrong]], equal_nan=True):
        with pytest.raises(AssertionError):
            check(lambda *_: tf.constant([[wrong]], tf.float32), column, value)


@st.composite
def batches(draw):
    rows = draw(st.integers(0, 6))
    columns, values = [], []
    finite = st.floats(-1e6, 1e6, width=32)
    for number in range(draw(st.integers(1, 4))):
        transform = draw(st.sampled_from(list(TRANSFORMS)))
        options = {"transform": transform, **TRANSFORMS[transform]}
        kind = draw(st.sampled_from(["number", "text", "ragged"]))
        if kind == "number":
            columns.append(Numeric(f"c{number}", **options))
            values.append(tf.constant([draw(finite) for _ in range(rows)], tf.float32))
            continue
        separator = draw(st.sampled_from([";", "|", "::", "\x02"]))
        columns.append(NumericList(f"c{number}", separator=separator, **options))
        cells = [draw(st.lists(finite, max_size=6)) for _ in range(rows)]
        if kind == "ragged":
            values.append(
                tf.RaggedTensor.from_row_lengths(
                    tf.constant([x for cell in cells for x in cell], tf.float32), [len(c) for c in cells]
                )
            )
        else:
            form = draw(st.sampled_from(["{:.6g}", "{:.17g}", "{}", " {:.3f}"]))
            values.append(tf.constant([separator.join(form.format(x) for x in cell) for cell in cells], tf.string))
    return columns, values


# The mean is a five hundredth of the numbers, so what they were rounded by is five hundred times as much of it.
CANCELLATION = [NumericList("a")], [texts("-315153.16;-543134.0;435626.0;419702.0")]


@settings(max_examples=150, deadline=None)
@given(batches())
@example(CANCELLATION)
def test_fused_is_the_reference_on_any_batch(batch):
    check(numbers.fused, *batch)


@settings(max_examples=25, deadline=None)
@given(batches())
@example(CANCELLATION)
def test_stock_is_the_reference_on_any_batch(batch):
    check(numbers.baseline, *batch)


@settings(max_examples=50, deadline=None)
@given(batches())
def test_fused_has_the_bits_of_stock_before_any_logarithm(batch):
    columns, values = batch
    plain = [(c, v) for c, v in zip(columns, values) if c.transform != "log1p"]
    if plain:
        expected, received = (parse(*zip(*plain)) for parse in (numbers.baseline, numbers.fused))
        np.testing.assert_array_equal(received.numpy().view("i4"), expected.numpy().view("i4"))


def test_the_contests_way_gives_the_same_means():
    columns, values = [NumericList("a"), NumericList("b", separator="|")], [texts("1;2.5", "-3"), texts("7", "1|2|3")]
    np.testing.assert_allclose(numbers.padded(columns, values), numbers.OP.reference(columns, values), rtol=1e-6)


def test_gradients_are_those_of_stock():
    columns = [
        *(Numeric(f"n{t}", transform=t, **o) for t, o in TRANSFORMS.items()),
        *(NumericList(f"l{t}", transform=t, **o) for t, o in TRANSFORMS.items()),
        NumericList("text"),
    ]
    rng = np.random.default_rng(0)
    single = [tf.constant([-2.0, -1.5, 0.5, 4.0])] * 3
    many = [lists([1, -2.5], [], [-1.5], [3, 4, 5])] * 3
    d_out = tf.constant(rng.standard_normal((4, 7)), tf.float32)

    def gradients(parse):
        flat = [tf.identity(x) for x in single] + [tf.identity(x.values) for x in many]
        with tf.GradientTape() as tape:
            tape.watch(flat)
            values = flat[:3] + [x.with_values(f) for x, f in zip(many, flat[3:])] + [texts("1", "2", "", "4")]
            out = parse(columns, values)
        return tape.gradient(out, flat, output_gradients=d_out)

    for received, expected in zip(gradients(numbers.fused), gradients(numbers.baseline)):
        np.testing.assert_allclose(received, expected, rtol=1e-5)


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    columns = [Numeric("a"), NumericList("b")]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.string)])
    def traced(*values):
        out = numbers.fused(columns, values)
        assert out.shape.as_list() == [None, 2]
        return out

    np.testing.assert_array_equal(traced(tf.constant([1.0, 2.0]), texts("3;5", "")), [[1, 4], [2, 0]])


BAD = {"1;x": "x", "1;2 3": "2 3", "--1": "--1", "1e": "1e", "0x": "0x", " ": " ", "1;é": "é", "1,5": "1,5"}


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("parse", [numbers.OP.reference, numbers.fused])
def test_what_is_no_number_is_refused_with_column_and_row(parse, text):
    shown = re.escape("".join(f"\\{b:03o}" if b > 127 else chr(b) for b in BAD[text].encode()))
    shown = f"({shown}|{re.escape(repr(BAD[text].encode())[2:-1])})"
    with pytest.raises(
        (CtrlabError, tf.errors.InvalidArgumentError), match=rf"column b must be numbers; received b?'{shown}' in row 1"
    ):
        parse([Numeric("a"), NumericList("b")], [tf.constant([1.0, 2.0]), texts("1", text)])


def test_a_long_text_is_shown_in_part():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"received 'x{40}\.\.\.' in row 0"):
        numbers.fused([NumericList("a")], [texts("x" * 1_000)])


RAW = dict(
    values=[tf.constant(["1", "2"]), tf.constant([1.0, 2.0])],
    splits=[],
    names=["one", "two"],
    layouts=["joined", "single"],
    separators=[";", ""],
    transforms=["none", "none"],
    lows=[0.0, 0.0],
    widths=[1.0, 1.0],
)
REFUSED = {
    "other rows": (dict(values=[tf.constant(["1"]), tf.constant([1.0, 2.0])]), "same rows|must be equal"),
    "a matrix": (dict(values=[tf.constant([["1"]]), tf.constant([1.0])]), "rank 1|must be a vector"),
    "text that is no list": (
        dict(layouts=["single", "single"], separators=["", ""]),
        "one must be numbers, or lists.*text that is no list",
    ),
    "a list of numbers in one": (dict(layouts=["joined", "joined"], separators=[";", ";"]), "joined column is text"),
    "no splits": (dict(layouts=["joined", "ragged"]), "splits for each ragged column"),
    "too few lows": (dict(lows=[0.0]), "one transform, low and width a column; received 2, 1 and 2 for 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    change, message = REFUSED[case]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_parse_numbers(**RAW | change)
