"""A single number in text: what the fused op and the reference read is what tf.strings.to_number reads, bit by bit."""

import numpy as np
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError
from ctrlab.ops.parsing import numbers
from ctrlab.ops.references.numbers import number
from ctrlab.schema import NumericList


def tensorflows(text):
    """The bits of what TensorFlow reads, or None where it refuses."""
    try:
        return int(tf.strings.to_number(text, tf.float32).numpy().view(np.uint32))
    except tf.errors.InvalidArgumentError:
        return None


def ours(text):
    try:
        # A separator that is in no text, so that the text is one part; of an empty one there is no part at all.
        value = numbers.fused([NumericList("a", separator="\x1f\x1e")], [tf.constant([text])])
        return int(value.numpy().view(np.uint32)[0, 0]) if text else None
    except tf.errors.InvalidArgumentError:
        return None


def of_reference(text):
    try:
        return number(text)
    except CtrlabError:
        return None


def same(text):
    """Ours is TensorFlow's, but for what adding to 0 loses in it: the sign of 0, what kind of NaN, and in TensorFlow's threads
    numbers so small that they have fewer digits (the fuzzer looks at those)."""
    expected, received, defined = tensorflows(text), ours(text), of_reference(text)
    assert (expected is None) == (received is None) == (defined is None), text
    if expected is None:
        return
    size = expected & 0x7FFFFFFF
    if size > 0x7F800000:
        assert received & 0x7FFFFFFF > 0x7F800000 and np.isnan(defined), text
    elif size < 0x00800000:
        assert received in (0, expected) and abs(defined) < 1.2e-38, text
    else:
        assert received == expected, text
        rounded = np.clip([defined, np.uint32(expected).view("f4")], -1e38, 1e38)
        np.testing.assert_allclose(*rounded, rtol=2e-7)  # float64 is rounded once more


# What numbers are made of, and what they are not.
PIECES = (
    *"0123456789.eE+-xpafF_,dL() \t\n\v\f\r\0\x1c\xa0",
    *("00", "99999999999999999999", "16777217", "8388608.5", "123456789", "..", "1,5", "0b1", "--", "+-"),
    *("e+", "e-", "e5", "E-40", "e38", "e39", "e-45", "e-46", "e400", "e99999999999999999999", "3.4028235e38", "3.4028236e38"),
    *("0x", "0X", "p3", "P-150", "p128", "inf", "INF", "infinity", "Infinit", "nan", "NaN", "nan(", "nan(1)", "nan(x_1)"),
    *("\u00e9", "\uff11", "\u0663", "\u03c0"),
)
SPACE = st.sampled_from(["", "", "", " ", "\t", "\n ", "\xa0"])
DECIMAL = st.builds(
    "{}{}{}{}{}{}".format,
    SPACE,
    st.sampled_from(["", "", "-", "+"]),
    st.from_regex(r"[0-9]{0,25}", fullmatch=True),
    st.sampled_from(["", "."]).flatmap(lambda dot: st.from_regex(r"[0-9]{0,25}", fullmatch=True).map(lambda x: dot + x)),
    st.one_of(st.just(""), st.integers(-60, 60).map("e{}".format)),
    SPACE,
)
HEX = st.builds(
    "{}0x{}.{}p{}".format,
    st.sampled_from(["", "-", "+"]),
    st.from_regex(r"[0-9a-fA-F]{0,20}", fullmatch=True),
    st.from_regex(r"[0-9a-fA-F]{0,20}", fullmatch=True),
    st.integers(-200, 200),
)
# Texts that stand close to the border between two floats.
TIES = (
    st.integers(0, 2**31 - 2**24)
    .map(lambda bits: np.uint32([bits, bits + 1]).view("f4").astype("f8").mean())
    .flatmap(lambda x: st.sampled_from([f"{x:.60g}", f"{x:.17g}", f"{x:.60f}"[:60], f"{x:.16f}", f"{x:.60g}"[:30]]))
)


@settings(max_examples=1_500, deadline=None)
@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), DECIMAL, HEX, TIES, st.text(max_size=8)))
@example("")
@example("16777217.0000000000000001")
@example("7.0064923216240853e-46")
@example("7.0064923216240854e-46")
@example("3.4028235677973366e38")
@example("3.4028235677973365e38")
@example("0x1.ffffffp127")
@example("0x1.fffffep127")
@example("0x0.000001p-126")
@example("0x1p-149")
@example("0x1p-150")
@example("0x1.8p-150")
@example("0xinf")
@example("0x-1")
@example("0x.p1")
@example("0x1p")
@example("0x1p+-4")
@example("0.8755911290645599")
@example("0.8975231945514679")
@example("0.8572079837322235")
def test_a_number_is_what_tensorflow_reads(text):
    same(text.encode())


def test_numbers_by_the_thousand_are_what_tensorflow_reads():
    """Every way to print random floats of any size, read back in one go."""
    rng = np.random.default_rng(0)
    floats = rng.integers(0, 2**32, 4_000, dtype=np.uint32).view("f4")
    floats = floats[np.isfinite(floats)].astype("f8")
    floats = np.concatenate([floats, rng.integers(-(10**7), 10**7, 4_000) / 10.0 ** rng.integers(0, 8, 4_000)])
    words = [form.format(x) for x in floats.tolist() for form in ("{}", "{:.9g}", "{:.17g}", "{:.3f}", "{:.0f}", "{:.6e}")]
    words += [x.hex() for x in floats.tolist()]
    expected = tf.strings.to_number(words).numpy()
    expected[np.abs(expected) < np.finfo("f4").tiny] = 0  # see `same`
    received = numbers.fused([NumericList("a")], [tf.constant(words)]).numpy()[:, 0]
    np.testing.assert_array_equal(received.view("u4"), expected.view("u4"))
