"""The index notebook: the map of the course, the state of this machine, and the learner's progress."""

from __future__ import annotations

from pathlib import Path

from nbformat import v4

from ctrlab.errors import CtrlabError
from ctrlab.lessons import course, notebook
from ctrlab.lessons.progress import Record, Store
from ctrlab.paths import write_atomically
from ctrlab.profiling.doctor import Report

_WELCOME = """# The CTR lab

Six click models, from a faithful baseline to as fast as this machine allows, one optimization a notebook.
Open a lesson below and run it from the top; what you change stays yours.
[The glossary](glossary.md) explains the words of the field, and [the cheat sheet](cheat_sheet.md) holds the course on two pages.
This page is written anew by `ctrlab lab`."""
UNREADABLE = "unreadable"
_PROGRESS = "from ctrlab.lessons.index import show_progress\n\nshow_progress()  # run me: where you are now"


def write(work: Path, report: Report) -> None:
    """Write `index.ipynb` into the working folder: its tables are written at once, and a cell updates the progress."""
    nb = v4.new_notebook(
        cells=[
            v4.new_markdown_cell(_WELCOME, id="welcome"),
            v4.new_markdown_cell(course_table(report, Store(work / "progress")), id="course"),
            v4.new_code_cell(_PROGRESS, id="progress"),
            v4.new_markdown_cell(machine_table(report), id="machine"),
            v4.new_markdown_cell(syllabus_table(), id="syllabi"),
        ]
    )
    write_atomically(work / "index.ipynb", notebook.dumps(notebook.canonical(nb)))


def course_table(report: Report | None = None, store: Store | None = None, link: str = "{name}.ipynb") -> str:
    """The map of the course in Markdown; with a report and a store, also which lessons work here, and the learner's progress."""
    personal = report is not None and store is not None
    heading = ["lesson", "what you will have shown", "minutes", *(("yours", "here") if personal else ())]
    lines = []
    for part in course.PARTS:
        lines += [f"### {part.title}", ""]
        if part.lessons:
            lines += [_row(heading), _row(["---"] * len(heading))]
        for entry in part.lessons:
            cells = [f"[{entry.title}]({link.format(name=entry.name)})", entry.summary, str(entry.minutes)]
            if personal:
                cells += [_state(store, entry.name), "no: see below" if report.reasons_against(entry.needs) else "works"]
            lines.append(_row(cells))
        if part.to_come:
            lines += ["", f"*To come: {'; '.join(part.to_come)}.*"]
        lines.append("")
    return "\n".join(lines).strip()


def machine_table(report: Report) -> str:
    """The doctor's findings in Markdown."""
    lines = ["## This machine", "", _row(["", "found", "needed", "state", "to mend or override"]), _row(["---"] * 5)]
    for f in report.findings:
        ok = f.state == "ok"
        lines.append(_row([f.name, f.found, f.needed, f.state if ok else f"**{f.state}**", "" if ok else f.cure]))
    return "\n".join(lines)


def syllabus_table() -> str:
    """The lessons that fit into 2, 4 and 8 hours, in Markdown: "do" is taught and done, "see" is only shown."""
    plans = {hours: {slot.lesson: slot for slot in course.syllabus(hours)} for hours in (2, 4, 8)}
    lines = ["## In a room", "", _row(["lesson", *(f"{hours} hours" for hours in plans)]), _row(["---"] * (1 + len(plans)))]
    for entry in course.lessons():
        slots = [plan.get(entry) for plan in plans.values()]
        texts = [f"{'do' if slot.hands_on else 'see'}, {slot.minutes} min" if slot else "at home" for slot in slots]
        lines.append(_row([entry.title, *texts]))
    sums = [sum(slot.minutes for slot in plan.values()) for plan in plans.values()]
    lines.append(_row(["*together*", *(f"*{total} min*" for total in sums)]))
    return "\n".join(lines)


def show_progress() -> None:
    """Print the learner's progress: state, exercises passed, solutions taken, quiz, prediction against measured speed."""
    from rich.console import Console
    from rich.table import Table

    store, problems = Store(), []
    table = Table("lesson", "state", "exercises", "solutions taken", "quiz", "predicted", "measured", title="Your progress")
    for entry in course.lessons():
        try:
            record = store.load(entry.name)
        except CtrlabError as error:
            problems.append(str(error))
            table.add_row(entry.title, UNREADABLE)
            continue
        table.add_row(entry.title, record.state, *_details(record))
    Console().print(table)
    for problem in problems:
        Console(soft_wrap=True).print(problem, style="red")


def _state(store: Store, lesson: str) -> str:
    try:
        return store.load(lesson).state
    except CtrlabError:
        return UNREADABLE  # `show_progress` says why


def _details(record: Record) -> tuple[str, ...]:
    speed = record.verdict.speed if record.verdict else None
    return (
        ", ".join(map(str, record.passed)),
        ", ".join(map(str, record.solutions)),
        f"{sum(record.quiz.values())} of {len(record.quiz)}" if record.quiz else "",
        ", ".join(f"{name} {guess:g}" for name, guess in record.predictions.items()),
        f"{speed.variant} {speed.median:.1f}x at profile {record.verdict.profile}" if speed else "",
    )


def _row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
