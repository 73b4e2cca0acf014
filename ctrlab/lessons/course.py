"""The map of the course: its parts, the existing and the planned lessons, and a syllabus for 2, 4 or 8 hours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ctrlab.errors import BadData, choose
from ctrlab.lessons import effort, notebook, places

NEEDS = ("tensorflow", "native", "compiler", "data", "gpu")


@dataclass(frozen=True)
class Lesson:
    """A lesson, described by the metadata and the cells of its solved notebook.

    Attributes:
        name: "02_ops/01_indicator_column".
        summary: one line on what the learner will have shown.
        teach, do: minutes to read it or to explain it to a class, and minutes of the learner's own work.
        needs: its requirements, from NEEDS.
        rank: when time is short, lessons with the lowest rank are kept.
    """

    name: str
    title: str
    summary: str
    teach: int
    do: int
    needs: tuple[str, ...]
    rank: int

    @property
    def minutes(self) -> int:
        return self.teach + self.do


@dataclass(frozen=True)
class Part:
    """A part of the course; `to_come` names the lessons that are not written yet."""

    name: str
    title: str
    to_come: tuple[str, ...] = ()

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        return tuple(entry for entry in lessons() if entry.name.startswith(f"{self.name}/"))


PARTS = (
    Part("01_baseline", "The baseline: data, models, and where the time goes"),
    Part("02_ops", "Faster ops: the same answers in less time"),
    Part(
        "03_embedding",
        "Embeddings that fit: storage, admission, collisions",
    ),
    Part(
        "04_serving",
        "Serving: from a checkpoint to answers under load",
        ("Serve on a GPU",),
    ),
)


def read_lesson(path: Path) -> Lesson:
    """The lesson whose solved notebook is `path`, `<notebooks>/<part>/<NN_topic>/lesson.ipynb`.

    Raises:
        BadData: its metadata are incomplete.
    """
    name = f"{path.parents[1].name}/{path.parent.name}"
    nb = notebook.read(path)
    entry, asked = nb.metadata.get("ctrlab", {}), effort.effort(nb)
    try:
        found = Lesson(name, entry["title"], entry["summary"], asked.read, asked.do, tuple(entry["needs"]), int(entry["rank"]))
    except (KeyError, TypeError, ValueError) as error:
        wanted = "title, summary, needs and rank"
        raise BadData(f"The metadata of a lesson, under `ctrlab`, say {wanted}; {path} fails at {error}.") from error
    for need in found.needs:
        choose(f"need of lesson {name}", need, NEEDS)
    return found


@cache
def lessons() -> tuple[Lesson, ...]:
    """Every existing lesson, in the order of the course."""
    return tuple(read_lesson(folder / "lesson.ipynb") for folder in places.folders().values())


def lesson(name: str) -> Lesson:
    """The lesson called `name`. Raises UnknownName, with the nearest name, if there is none."""
    known = {entry.name: entry for entry in lessons()}
    return known[choose("lesson", name, known)]


def after(name: str) -> Lesson | None:
    """The lesson that follows, or None at the end."""
    names = [entry.name for entry in lessons()]
    place = names.index(choose("lesson", name, names)) + 1
    return lessons()[place] if place < len(names) else None


@dataclass(frozen=True)
class Slot:
    """A lesson's place in a syllabus: its minutes there, and whether the learners do it or only see it."""

    lesson: Lesson
    minutes: int
    hands_on: bool


def syllabus(hours: int, among: tuple[Lesson, ...] | None = None) -> tuple[Slot, ...]:
    """The lessons that fit into `hours` hours, by rank. A lesson is done if there are enough minutes left, otherwise shown,
    otherwise left for home.

    >>> [slot.lesson.name for slot in syllabus(2)]  # doctest: +SKIP
    """
    left, slots = hours * 60, []
    for entry in sorted(among if among is not None else lessons(), key=lambda entry: entry.rank):
        hands_on = entry.minutes <= left
        minutes = entry.minutes if hands_on else entry.teach
        if minutes <= left:
            slots.append(Slot(entry, minutes, hands_on))
            left -= minutes
    return tuple(sorted(slots, key=lambda slot: slot.lesson.name))
