"""A report has the same cells in the terminal and in Markdown."""

import io

import pytest
from rich.console import Console

from ctrlab.profiling.machine import machine
from ctrlab.profiling.report import Part, Report

ODD = Part("Bytes [/tmp]", ("[bold]", "bytes"), [["[a b] x", "1"], ["[a b] x", "2"]], kinds=1, caption="[/red]")
LINES = [["deepfm", "all", "1.5 [1, 2]"], ["deepfm", "none", ""], ["din", "all", "[bold]7"]]
PART = Part("Seconds of a step", ("model", "rungs", "times as fast"), LINES, words=2, kinds=1)


def shown(report: Report, width: int = 80) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    report.show(console)
    return console.file.getvalue().splitlines()


def cells(lines: list[str], mark: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip(mark).split(mark)] for line in lines if line.startswith(mark)]


def test_brackets_are_no_markup():
    text = " ".join(" ".join(shown(Report([ODD]))).split())
    assert "Bytes [/tmp]: [bold] [a b] x" in text and "[/red]" in text


def test_both_have_every_cell():
    report = Report([PART])
    written = report.markdown().splitlines()
    assert written[0] == "Seconds of a step:" and cells(written, "|") == [list(PART.headings), ["---"] * 3, *LINES]
    assert cells(shown(report), "│") == LINES


def test_the_terminal_has_title_machine_and_notes_below():
    lines = shown(Report([PART], ["din: [7, 8] threads"]))
    assert lines[0].strip() == "Seconds of a step" and lines[-1] == "din: [7, 8] threads"
    assert machine().line.split()[0] in lines[-2] or machine().line.split()[0] in lines[-3]


@pytest.mark.parametrize(("kinds", "drawn"), [(0, 0), (1, 1), (2, 2)])
def test_a_line_is_drawn_where_a_kind_changes(kinds, drawn):
    lines = shown(Report([Part("", ("a", "b"), [["1", "2"], ["1", "3"], ["1", "3"], ["4", "5"]], kinds=kinds)]))
    assert sum(line.startswith("├") for line in lines) == drawn


def test_numbers_stand_right_and_words_are_whole():
    lines = shown(Report([Part("", ("a name", "n"), [["two words of a name", "1"], ["b", "10,000"]])]), width=34)
    assert "│ two words of a name │      1 │" in lines and "│ b                   │ 10,000 │" in lines


def test_what_never_changes_stands_in_the_title():
    part = Part("Seconds", ("model", "rungs", "times as fast"), [["din", "all", "1"], ["din", "none", "2"]], words=2, kinds=2)
    lines = shown(Report([part]))
    assert lines[0].strip() == "Seconds: model din" and cells(lines, "│") == [["all", "1"], ["none", "2"]]
    assert cells(part.markdown().splitlines(), "|")[2:] == part.lines


def test_no_number_is_cut_where_there_is_too_little_room():
    part = Part("", ("a", *"bcdefg"), [["word", *["0.123456 [0.012345,"] * 6]])
    assert "…" not in "".join(shown(Report([part]), width=40))


def test_several_parts_are_apart():
    assert Report([PART, PART]).markdown() == f"{PART.markdown()}\n\n{PART.markdown()}"
    assert Part.of("x", ("a",), iter([("1",)])).lines == [["1"]]
