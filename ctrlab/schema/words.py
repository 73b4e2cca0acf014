"""What a value of a column of ids is as a word: one rule, whatever way the value came. native/words.h is its twin.

A whole number is its decimal digits: 438, and 438.0 too, which pandas makes of it beside missing values. A text is itself, with
one exception: a file of text has no types, so a text that spells a whole number as programs write numbers is that number's word.

    "438"  "438.0"  " 438"  "+438"  "4.38e+02"  438  438.0      438
    "-0"  "0.0"  0  -0.0                                        0
    "2e+16"  "2.0E16"  2e16                                     20000000000000000
    "0438"  "0438.0"  "4e3"  "0x10"  "v438"                     themselves: they are codes

A code has leading zeros, or an exponent without a sign and a point, or letters. A number with a fraction is no word; a text with
one is itself, however near to a whole number. With an exponent, as programs write large floats, it is that float. The rule looks
at nothing but the value: a request has one row, and a file many.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MOST, LONGEST = 2.0**63, 64
"""Whole numbers with an exponent lie in [-MOST, MOST), those of 64 bits."""
NUMBER = re.compile(r"[ \t]*[+-]?(?:\.0+|(?=\.?[0-9])[0-9]*(?:\.[0-9]*)?[eE][+-]?0*[0-9]{1,2})[ \t]*")
"""What else may be whole: .0, or with an exponent; in at most `LONGEST` signs, so that none is beyond double precision."""
CODE = re.compile(r"[ \t]*[+-]?(?:0[0-9].*|[0-9]+[eE][0-9]+)[ \t]*")
WHOLE = re.compile(r"[ \t]*(?:\+|(-)|)(0|[1-9][0-9]*)(?:\.0*)?[ \t]*")
"""A whole number of any length, as most are spelled."""
RARE = r"^[ \t]*[+-]?(\.0+|[0-9.]+[eE][+-]?[0-9]+)[ \t]*$"
"""All that `NUMBER` takes, and little else."""


def word(text: str) -> str:
    """The word of a text.

    >>> [word(text) for text in ("438.0", "0438", "+1", "1E+03", "1e3", "1.5", "Rome")]
    ['438', '0438', '1', '1000', '1e3', '1.5', 'Rome']
    """
    if found := WHOLE.fullmatch(text):
        return "0" if found[2] == "0" else (found[1] or "") + found[2]
    if len(text) > LONGEST or not NUMBER.fullmatch(text) or CODE.fullmatch(text):
        return text
    number = float(text)
    return str(int(number)) if -MOST <= number < MOST and number.is_integer() else text


def words(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The words of texts [n], string or large_string, in their type. Missing ones stay missing."""
    import pyarrow as pa  # a schema needs no Arrow
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(texts, f"^{WHOLE.pattern}$|{RARE}"), min_count=0).as_py():
        return texts
    made = pc.replace_substring_regex(texts, f"^{WHOLE.pattern}$", r"\1\2")
    made = pc.if_else(pc.equal(made, "-0"), pa.scalar("0", texts.type), made)
    rare = pc.fill_null(pc.match_substring_regex(made, RARE), False)
    if pc.any(rare, min_count=0).as_py():
        distinct = pc.filter(made, rare).unique()
        spelled = pa.array([word(text) for text in distinct.to_pylist()], texts.type)
        made = pc.if_else(rare, pc.take(spelled, pc.index_in(made, distinct)), made)
    return made


def differ(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether a text has another word than the whole number, int64 or float64 [n], that a reader made of it: it is a code, or the
    number lost digits of it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(numbers.type):
        fits = pc.and_(pc.greater_equal(numbers, -MOST), pc.less(numbers, MOST))
        if pc.any(pc.match_substring_regex(texts.filter(pc.invert(fits)), f"^{WHOLE.pattern}$"), min_count=0).as_py():
            return True
        whole = pc.and_(fits, pc.equal(numbers, pc.floor(numbers)))
        texts, numbers = texts.filter(whole), numbers.filter(whole).cast(pa.int64())
    spelled = numbers.cast(pa.string())
    others = pc.not_equal(texts, spelled)
    return pc.any(pc.not_equal(words(texts.filter(others)), spelled.filter(others)), min_count=0).as_py()
