"""Tables in Markdown: figures with the digits that mean something, and places in pages."""

import pytest

from ctrlab.errors import BadData
from ctrlab.profiling.markdown import filled, interval, number, percent, signed, table
from ctrlab.profiling.timing import Interval

PAGE = "a\n<!-- b: x -->\nOLD\n<!-- end of b -->\nc\n"


def test_numbers_have_three_digits_or_are_whole():
    assert [number(value) for value in (0, 0.012345, 1.5, 99.94, 100.4, 12_345.6, -250.2)] == [
        *("0", "0.0123", "1.5", "99.9", "100", "12,346", "-250")
    ]


def test_differences_have_their_sign_and_zero_has_none():
    assert [signed(value) for value in (0.125, -3.0, -0.004, -5e-14)] == ["+0.12", "-3.00", "0.00", "0.00"]
    assert [percent(value) for value in (0.304, -0.16, -0.001)] == ["+30 %", "-16 %", "0 %"]


def test_intervals():
    of = Interval(0.002, 0.0015, 0.12, 0.95)
    assert interval(of, 1e3) == "2 [1.5, 120]" and interval(of, shown=signed) == "0.00 [0.00, +0.12]"


def test_a_table_is_written_into_its_place_and_nothing_else_changes():
    lines = table(["x", "y"], [["1", ""], ["\\1", "2"]])
    assert lines == "| x | y |\n| --- | --- |\n| 1 |  |\n| \\1 | 2 |"
    page = filled(PAGE, "b", lines, "page.md")
    assert page == f"a\n<!-- b: x -->\n\n{lines}\n\n<!-- end of b -->\nc\n" and filled(page, "b", lines, "page.md") == page


@pytest.mark.parametrize("page", ["", PAGE + PAGE])
def test_a_page_has_one_place(page):
    with pytest.raises(BadData, match=r"page.md has one place for the b table"):
        filled(page, "b", "", "page.md")
