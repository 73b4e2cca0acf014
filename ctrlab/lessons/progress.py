"""A learner's progress, stored between sessions: one JSON file per lesson in `<work>/progress`."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ctrlab.errors import BadData
from ctrlab.lessons import places
from ctrlab.paths import write_atomically
from ctrlab.plain import Plain

NOT_JUDGED = "not judged at this profile"


@dataclass(frozen=True)
class Speed:
    """A measured speed: the ratio to the baseline, its interval, and whether that is enough."""

    variant: str
    at_least: float
    median: float
    low: float
    high: float
    verdict: str

    def __str__(self) -> str:
        times = f"{self.median:.1f}x the baseline [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.variant} is {times}; at least {self.at_least:g}x: {self.verdict}"


@dataclass(frozen=True)
class Verdict:
    """The result of a lesson.

    Attributes:
        difference: the largest relative difference of the losses from the baseline's; None if none were compared.
        speed: the measured speed; None if the lesson times nothing.
        claims: {claim of the lesson: whether it holds}; None if this profile can't tell.
        solutions: exercises for which the learner took the solution.
        answers: number of tensors of another model, logits and gradients, that equal the baseline's; None if none were compared.
    """

    lesson: str
    profile: str
    machine: str
    solutions: tuple[int, ...] = ()
    difference: float | None = None
    speed: Speed | None = None
    claims: dict[str, bool | None] = field(default_factory=dict)
    answers: int | None = None

    @property
    def _refuted(self) -> bool:
        return False in self.claims.values()

    @property
    def passed(self) -> bool:
        """Whether the answers are right, and fast enough if speed is judged (not at `tiny`). An "inconclusive" speed has not
        passed yet.
        """
        return not self._refuted and (self.speed is None or self.speed.verdict in ("yes", NOT_JUDGED))

    def __str__(self) -> str:
        if self.passed:
            return "passed"
        return "inconclusive" if not self._refuted and self.speed.verdict == "inconclusive" else "not passed"


@dataclass
class Record(Plain):
    """One lesson's file: predictions, passed exercises, solutions that were taken, the last verdict, and the quiz questions
    that were right at the first choice.
    """

    lesson: str
    predictions: dict[str, float] = field(default_factory=dict)
    passed: list[int] = field(default_factory=list)
    solutions: list[int] = field(default_factory=list)
    verdict: Verdict | None = None
    quiz: dict[str, bool] = field(default_factory=dict)

    def add_pass(self, exercise: int) -> None:
        self.passed = sorted({*self.passed, exercise})

    def take_back(self, exercise: int) -> None:
        """Marks the exercise as no longer passed, and with it the lesson."""
        if exercise in self.passed:
            self.passed.remove(exercise)
            self.verdict = None

    def add_solution(self, exercise: int) -> None:
        self.solutions = sorted({*self.solutions, exercise})

    def end(self, verdict: Verdict | None) -> None:
        self.verdict = verdict

    @property
    def state(self) -> str:
        """The state in a word: "new", "started", or the verdict's."""
        if self.verdict:
            return str(self.verdict)
        return "started" if self.predictions or self.passed or self.solutions or self.quiz else "new"


class Store:
    """The records of a working folder. A write is atomic: a file is the old record or the new one, never half of it."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder or places.work() / "progress"

    def path(self, lesson: str) -> Path:
        return self.folder / f"{lesson.replace('/', '.')}.json"

    def load(self, lesson: str) -> Record:
        """The lesson's record; an empty one if there is none.

        Raises:
            BadData: the file exists but can't be read as a record of this lesson.
        """
        path = self.path(lesson)
        try:
            record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Record(lesson)
        except OSError as error:
            raise BadData(f"Progress file {path} can't be read: {error.strerror}. Mend that, or move it away.") from error
        except (ValueError, RecursionError) as error:
            rule = "A progress file must be the JSON that a lesson wrote"
            raise BadData(f"{rule}; {path} is not ({error}). Delete it to start again.") from error
        if record.lesson != lesson:
            raise BadData(f"Progress file {path} must be of lesson {lesson}; it is of {record.lesson}. Move it away.")
        return record

    def save(self, record: Record) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(record.lesson)
        write_atomically(path, json.dumps(record.to_json(), indent=1, sort_keys=True) + "\n")

    def change(self, lesson: str, change: Callable[[Record], object]) -> Record:
        """Apply `change` to the lesson's record in its current file, and save it. Two notebooks may be open on one lesson: the
        other one's change waits for the end of this one.

        Raises:
            BadData: as in `load`. OSError: the file can't be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w", encoding="utf-8") as lock:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            record = self.load(lesson)
            change(record)
            self.save(record)
        return record
