"""`ctrlab bench tables`: each figure is that of the records; what checks this finds wrong tables."""

import json
import re

import measured
import pytest
from made_records import Made
from typer.testing import CliRunner

from ctrlab.errors import BadData, CtrlabError
from studies.app import app
from studies.tables import command as tables

PLACES = "".join(f"# {name}\n<!-- {name}: written -->\nOLD\n<!-- end of {name} -->\nmore text\n" for name in tables.RENDERERS)


@pytest.fixture(scope="module")
def records():
    return Made(1).all()


@pytest.fixture(scope="module")
def page(records):
    return tables.page(PLACES, records, "page.md")


def test_every_figure_is_that_of_the_records(page, records):
    assert measured.wrong(page, records) == []
    assert "OLD" not in page and page.count("more text") == len(tables.RENDERERS)
    assert tables.page(page, records, "page.md") == page


@pytest.mark.parametrize("rounds", [1, 3, 6, 15])
def test_with_fewer_or_more_rounds(rounds):
    made = Made(2, rounds).all() | {"fleet": [Made(3).fleet(cores=None)]}
    assert measured.wrong(tables.page(PLACES, made, "page.md"), made) == []


def test_zero_is_zero_and_never_a_ratio(records):
    made = Made(4).serving("deepfm")
    for row in made["rows"]:
        if row["side"] == "stock in Python" and row["most"]:
            row["most"] = [0.0, 0.0, 3.0]
    whole = tables.page(PLACES, records | {"serving": [made]}, "page.md")
    *_, (_, *lines) = measured.tables_in(whole, "serving")
    within, times, short = 3, 4, 5
    assert lines[0][within] == "0 [0, 3]" and lines[0][short] == "0 [0, 0]"
    assert {line[times] for line in lines} == {""}


def changed(page: str, name: str, at: int) -> str:
    """The page with another digit, the `at`-th from the end of a table's place."""
    start, end = page.index(f"<!-- {name}:"), page.index(f"<!-- end of {name}")
    cells = [
        m.start() for m in re.finditer(r"\d", page) if start < m.start() < end and page[page.rfind("\n", 0, m.start()) + 1] == "|"
    ]
    place = cells[-at]
    return page[:place] + str((int(page[place]) + 1) % 10) + page[place + 1 :]


@pytest.mark.parametrize("name", tables.RENDERERS)
@pytest.mark.parametrize("at", [1, 2, 17, 60])
def test_another_digit_is_found(page, records, name, at):
    assert measured.wrong(changed(page, name, at), records) != []


@pytest.mark.parametrize("name", tables.RENDERERS)
def test_a_row_or_a_column_that_is_missing_or_new_is_found(page, records, name):
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"<!-- {name}:"))
    first = next(i for i in range(start, len(lines)) if lines[i].startswith("| ---")) + 1
    for edited in (
        lines[:first] + lines[first + 1 :],
        [*lines[:first], lines[first], *lines[first:]],
        [*lines[:first], lines[first] + " 7 |", *lines[first + 1 :]],
        [line.replace("| --- |", "|", 1) if line.startswith("| ---") else re.sub(r"^\| [^|]* ", "", line) for line in lines],
        [*lines[:first], lines[first].replace("deepfm", "dlrm", 1), *lines[first + 1 :]],
        [line.replace("a machine", "another") for line in lines],
    ):
        assert measured.wrong("\n".join(edited) + "\n", records) != []


def test_the_command_writes_the_page(records, page, tmp_path):
    for name, of in records.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(of if len(of) > 1 else of[0]))
    (tmp_path / "page.md").write_text(PLACES)
    found = CliRunner().invoke(app, ["tables", str(tmp_path), "--into", str(tmp_path / "page.md")])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "page.md").read_text() == page
    shown = CliRunner().invoke(app, ["tables", str(tmp_path)]).output
    assert all(line in shown for line in page.splitlines() if line.startswith("|"))


def test_what_is_no_record_is_a_sentence(records, tmp_path):
    with pytest.raises(CtrlabError, match=r"Records are in a folder; .*nowhere is none"):
        tables.command(tmp_path / "nowhere")
    assert tables.recorded(tmp_path) == {name: [] for name in tables.RENDERERS}
    assert tables.rendered("serving", []) == "There is no record of `ctrlab bench serving` yet."
    path = tmp_path / "fleet.json"
    for text, says in (
        ("{", "is JSON"),
        ("[]", "has one, or a list"),
        ("[3]", "has one, or a list"),
        ("7", "has one, or a list"),
    ):
        path.write_text(text)
        with pytest.raises(BadData, match=says):
            tables.recorded(tmp_path)
    with pytest.raises(BadData, match=r"groups.json has records of `ctrlab bench groups`; one is none"):
        tables.rendered("groups", records["serving"])
    with pytest.raises(BadData, match=r"groups.json has records .* \(GroupsFound can't be read: it has no field \$\.odd\.\)"):
        tables.rendered("groups", [record | {"odd": 1} for record in records["groups"]])
    with pytest.raises(BadData, match=r"page.md has no place for a table, a line <!-- serving: ... -->, of serving, groups"):
        tables.page("nothing", records, "page.md")
    with pytest.raises(BadData, match=r"page.md has one place for the serving table; 2 were found"):
        tables.page(2 * PLACES, records, "page.md")
