"""The tables of docs/serving_measured.md have the figures that were recorded."""

import measured
import pytest
from pages import PAGES, ROOT

from ctrlab.cli.bench import tables

PAGE = "docs/serving_measured.md"
RECORDS = {name: tables.read(ROOT / "data" / "measurements" / f"{name}.json") for name in tables.RENDERERS}


@pytest.mark.parametrize("name", [name for name, found in RECORDS.items() if found])
def test_the_tables_have_what_was_recorded(name):
    assert measured.wrong(PAGES[PAGE].read_text(), {name: RECORDS[name]}) == []


def test_the_page_is_as_the_command_writes_it():
    text = PAGES[PAGE].read_text()
    assert tables.page(text, RECORDS, PAGE) == text
