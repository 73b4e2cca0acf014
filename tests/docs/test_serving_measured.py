"""The tables of the guides have the figures that were recorded."""

import measured
import pytest
from pages import PAGES, ROOT

from studies.tables import command as tables

NAMES = [name for name in PAGES if any(f"<!-- {each}:" in PAGES[name].read_text() for each in tables.RENDERERS)]
RECORDS = tables.recorded(ROOT / "data" / "measurements")


@pytest.mark.parametrize("name", [name for name, found in RECORDS.items() if found])
def test_the_tables_have_what_was_recorded(name):
    [text] = [text for page in NAMES if f"<!-- {name}:" in (text := PAGES[page].read_text())]
    assert measured.wrong(text, {name: RECORDS[name]}) == []


@pytest.mark.parametrize("page", NAMES)
def test_the_page_is_as_the_command_writes_it(page):
    text = PAGES[page].read_text()
    assert tables.page(text, RECORDS, page) == text
