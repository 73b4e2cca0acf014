"""`ctrlab doctor`: this machine and the lessons, as two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Column, Table

from ctrlab.cli.app import console

if TYPE_CHECKING:
    from ctrlab.lessons.course import Lesson
    from ctrlab.profiling.doctor import Report

STYLES = {"ok": "green", "limited": "yellow", "absent": "yellow", "missing": "red"}


def command() -> None:
    """Say what this machine has, what is missing, which lessons work here, and how to mend the rest."""
    from ctrlab.profiling import doctor, workbook

    out = console()
    with out.status("Looking at this machine"):
        found = doctor.examine()
    out.print(table_of_findings(found))
    well = found.healthy
    if not workbook.missing():  # what else blocks lessons is read from their notebooks
        from ctrlab.lessons import course

        blocked = {entry: found.reasons_against(entry.needs) for entry in course.lessons()}
        out.print(table_of_lessons(blocked))
        well = well and not any(blocked.values())
    raise typer.Exit(0 if well else 1)


def table_of_findings(found: Report) -> Table:
    """The table of findings: what exists, what is needed, and how to fix the rest."""
    table = Table("", Column("found", overflow="fold"), "needed", "state", "to mend or override", title="This machine")
    for f in found.findings:
        cure = "" if f.state == "ok" else f.cure
        table.add_row(f.name, escape(f.found), escape(f.needed), f"[{STYLES[f.state]}]{f.state}[/]", escape(cure))
    return table


def table_of_lessons(blocked: dict[Lesson, list[str]]) -> Table:
    """Each lesson, and the reasons why it does not work here: none where it does."""
    table = Table("lesson", "", "works here", title="The lessons")
    for entry, reasons in blocked.items():
        works = "[red]no[/]: " + escape(" ".join(reasons)) if reasons else "[green]yes[/]"
        table.add_row(entry.name, escape(entry.title), works)
    return table
