"""The course on two pages."""

import re

import pytest
from nbformat import v4

from ctrlab.errors import BadData
from ctrlab.lessons import cheat_sheet, course, glossary, places

SHEET = (places.notebooks() / cheat_sheet.PAGE).read_text()


def test_every_lesson_has_its_points_and_every_rule_its_term():
    for entry in course.lessons():
        part = SHEET.partition(f"## [{entry.title}]({entry.name}/lesson.ipynb)\n")[2].partition("\n## ")[0]
        assert len(re.findall(r"^\* \S.*\.$", part, re.M)) >= 3, entry.name
    for terms in glossary.contents()["rules"].values():
        assert all(glossary.terms()[term] in SHEET for term in terms)


@pytest.mark.parametrize("mark", ["1.", "*"])
def test_points_are_one_line_each(mark):
    text = f"Before.\n\n**Key points**\n\n{mark} One\n   goes on.\n{mark} Two.\n\n**Read on**: more."
    assert cheat_sheet.key_points("x", v4.new_notebook(cells=[v4.new_markdown_cell(text)])) == ["* One goes on.", "* Two."]


def test_a_lesson_without_points_is_named():
    with pytest.raises(BadData, match="03_x/01_y has none"):
        cheat_sheet.key_points("03_x/01_y", v4.new_notebook(cells=[v4.new_markdown_cell("Key points")]))
