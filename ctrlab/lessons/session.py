"""A running lesson: `start` prepares it and returns the `Lab` that the rest of the notebook uses."""

from __future__ import annotations

import inspect
import logging
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ctrlab import profiles
from ctrlab.errors import CtrlabError, choose
from ctrlab.lessons import check as checking
from ctrlab.lessons import course, gate, notebook, places
from ctrlab.lessons.check import CheckFailed, Unanswered
from ctrlab.lessons.outcome import Outcome
from ctrlab.lessons.progress import Record, Store, Verdict
from ctrlab.profiling import doctor
from ctrlab.profiling.machine import machine
from ctrlab.profiling.quiet import quiet

SEED = 2021


def start(lesson: str) -> Lab:
    """Prepare the machine for a lesson, and print the device on which it runs.

    Args:
        lesson: part and file name, "02_ops/01_indicator_column".
    Raises:
        UnknownName: there is no such lesson. CtrlabError: this machine lacks something that the lesson needs.
    """
    entry = course.lesson(lesson)
    report = doctor.examine(quick=True)
    if reasons := report.reasons_against(entry.needs):
        raise CtrlabError(f"Lesson {lesson} cannot run here. " + " ".join(reasons))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with quiet():
        import keras

        from ctrlab import devices

        logging.getLogger("absl").setLevel(logging.ERROR)  # TensorFlow's Python warns of what no learner can change
        if "gpu" in entry.needs:
            devices.share()
        else:  # its figures are of a CPU
            devices.hide()
    if "native" in entry.needs:
        from ctrlab import _native

        _native.library()
    keras.utils.set_random_seed(SEED)
    if "compiler" in entry.needs:
        _load_magics()
    where = machine()
    lab = Lab(lesson, machine=where.device)
    print(f"{entry.title}: {lesson}, profile {lab.profile.name}, seed {SEED}")
    print(f"machine   {lab.machine}")
    print("versions  " + ", ".join(f"{name} {version}" for name, version in where.versions.items()))
    return lab


def _load_magics() -> None:
    from IPython import get_ipython

    if shell := get_ipython():
        for module in ("kernel_magic", "cpp_cell"):
            shell.run_line_magic("load_ext", f"ctrlab.lessons.{module}")


class Lab:
    """One learner in one lesson: guesses, checks, measurements, the gate and the verdict.

    Attributes:
        profile: the sizes to use, `ctrlab.profiles.Profile`.
        machine: one line that names the device.
    """

    def __init__(self, lesson: str, machine: str, store: Store | None = None):
        self.lesson, self.machine = lesson, machine
        self.profile = profiles.current()
        self.store = store or Store()
        self._record = self.store.load(lesson)
        self._passed: dict[int, tuple[Callable, object]] = {}  # answer, and its code then
        self._solutions: set[int] = set()
        self._refused: set[int] = set()  # exercises of which an answer was refused
        self._verdict: Verdict | None = None

    def size(self, whole: int) -> int:
        """A size such as a batch size: `whole`, or an eighth of it at the profile `tiny`, where time is short."""
        return max(1, whole // 8) if self.profile.name == "tiny" else whole

    def some(self, names: list, few: int) -> list:
        """`names`, or the first `few` of them at the profile `tiny`, where time is short."""
        return names[:few] if self.profile.name == "tiny" else names

    def predict(self, **guesses: float) -> None:
        """Write down what you expect before you measure, `predict(speedup=5, hits_percent=60)`; `outcome` compares it later.

        Raises:
            Unanswered: the dots are not replaced by a number yet. CtrlabError: a prediction is not a number above 0; a share may
                be 0.
        """
        for name, guess in guesses.items():
            if guess is ...:
                raise Unanswered(f"Write a number in place of the dots: {name}=... A wrong guess costs nothing.")
            number = isinstance(guess, numbers.Real) and not isinstance(guess, bool)
            if not number or not (0 < guess < 1e15 or (guess == 0 and Outcome.is_share_of(name))):
                rule = "A prediction is a number above 0 and below 1e15, where percents may be 0"
                raise CtrlabError(f"{rule}; {name} is {str(guess)[:20]!r}.")
        written = {name: float(guess) for name, guess in guesses.items()}
        print("Written down. Now find out.")
        self._keep(lambda record: record.predictions.update(written))

    def outcome(self, *, if_less: str = "", if_more: str = "", how: str = "measured", **outcomes: float) -> None:
        """Show each prediction beside its outcome (a number, or an interval with a `median`).

        Args:
            if_less, if_more: where to look, shown if the outcome is less, or more, than predicted.
            how: how the outcomes were obtained: "measured", "simulated", or "computed" by a formula.
        """
        from IPython.display import display

        for name, value in outcomes.items():
            said, came = self._record.predictions.get(name), float(getattr(value, "median", value))
            display(Outcome(name, said, came, if_less, if_more, how))

    def check(self, exercise: int, answer: Callable) -> None:
        """Judge an answer on fresh random and adversarial inputs. A wrong answer takes back the pass of an earlier one. The first
        refusal says what is wrong, and each later one what to try, too.

        Raises:
            CheckFailed: the answer is wrong. Unanswered: it is still the stub.
        """
        try:
            checking.run(self.lesson, exercise, answer)
        except BaseException as error:
            if isinstance(error, CheckFailed):
                if exercise in self._refused:
                    error.tell()
                self._refused.add(exercise)
            self._verdict = None
            self._passed.pop(exercise, None)
            self._keep(lambda record: record.take_back(exercise))
            raise
        self._passed[exercise] = answer, gate.code_of(answer)
        print(f"Exercise {exercise} passed.")
        self._keep(lambda record: record.add_pass(exercise))

    def _keep(self, change: Callable[[Record], object]) -> bool:
        """Change the record, and nothing else in its file. Returns whether it was saved. A file that can't be written causes a
        printed sentence, not an error, which would hide the message to the learner.
        """
        try:
            self._record = self.store.change(self.lesson, change)
        except (OSError, CtrlabError) as error:
            change(self._record)
            print(f"Your progress counts until this kernel ends, but could not be saved: {error}")
            return False
        return True

    def use_solution(self, exercise: int) -> None:
        """Run the solution's cell in this notebook, for a learner who is stuck; the verdict notes it."""
        solutions = notebook.solutions(notebook.read(places.lesson_path(self.lesson)))
        choose("exercise", str(exercise), map(str, solutions))
        self._solutions.add(exercise)
        print(f"Using the solution of exercise {exercise}; the verdict will say so.")
        self._keep(lambda record: record.add_solution(exercise))
        from IPython import get_ipython

        get_ipython().run_cell(solutions[exercise]).raise_error()

    def measure(self, variants: Mapping[str, Callable], make_inputs: Callable[[int], tuple], *, baseline: str, **options):
        """The one stopwatch, `timing.compare`, with this profile's repetitions; prints its table and returns the Comparison."""
        from ctrlab.profiling import timing

        options.setdefault("repetitions", self.profile.repetitions)
        comparison = timing.compare(dict(variants), make_inputs, baseline=baseline, **options)
        show_comparison(comparison, baseline)
        return comparison

    def side_by_side(self, sides: Mapping[str, tuple], batches: Iterable[tuple], **options) -> dict[str, list[float]]:
        """Train models on the same batches, {name: (model, optimizer, step)}, the baseline first; the losses by name.

        A live chart shows their relative difference from the baseline's. `ctrlab.lessons.side_by_side.train` has the details.
        """
        from ctrlab.lessons import side_by_side

        return side_by_side.train(sides, batches, **options)

    def live_chart(self, title: str, y: str, **options):
        """A chart that moves while a cell runs: `chart.add(series, x, y)`, then `chart.close()`."""
        from ctrlab.profiling import charts

        return charts.LiveChart(title, y, **options)

    def figure(self, name: str) -> None:
        """Show the figure or the animation `name` of this lesson, from the figures.py in its folder."""
        from IPython.display import display

        from ctrlab.lessons import figures

        display(figures.of_lesson(self.lesson, name))

    def explore(self, draw: Callable[..., Mapping[str, float]], *, x: str, y: str, **options) -> None:
        """Show sliders that redraw a plot: `V=[1, 10]` is a choice. `ctrlab.lessons.explore.Explorer` has the details.

        Raises:
            Unanswered: the drawn function calls a stub.
        """
        from IPython.display import display

        from ctrlab.lessons.explore import LOOKS, Explorer

        looks = {name: options.pop(name) for name in LOOKS if name in options}
        with checking.stub_in_a_line():
            explorer = Explorer(draw, options, x=x, y=y, **looks)
        display(explorer)

    def source(self, thing) -> None:
        """Show the source of a function, class or module, or of a file named from the checkout's root."""
        from IPython.display import Code, display

        if isinstance(thing, str | Path):
            path = places.notebooks().parent / thing
            display(Code(filename=str(path), language="cpp" if path.suffix in {".cc", ".h", ".cu"} else None))
        else:
            display(Code(inspect.getsource(thing), language="python"))

    def quiz(self) -> None:
        """Show the lesson's questions. The first choice for each of them is kept in the progress."""
        from ctrlab.lessons import quiz

        def answered(number: int, right: bool) -> None:
            self._keep(lambda record: record.quiz.setdefault(str(number), right))

        quiz.ask(quiz.questions_of(self.lesson), answered)

    def gate(
        self,
        models: Mapping[str, object] | None = None,
        batch: tuple | None = None,
        *,
        losses: Mapping[str, Sequence[float]] | None = None,
        rtol: float = 1e-5,
        comparison=None,
        variant: str = "",
        at_least: float = 1.0,
        claims: Mapping[str, bool] | None = None,
        claims_beyond_tiny: Mapping[str, bool] | None = None,
    ) -> Verdict:
        """The end of a lesson: every exercise passed, the same answers and losses, and fast enough.

        Args:
            models, batch: models, the baseline first; on this batch, from the baseline's weights, each must give its logits and
                its gradients.
            losses: loss curves, the baseline's first; each must agree with it within `rtol`, step by step.
            comparison, variant, at_least: the measured speed and the required one. At `tiny` only its plausibility is checked.
            claims: other claims of the lesson.
            claims_beyond_tiny: claims that the few rows of the profile `tiny` can't show; there they are not judged.
        Raises:
            CheckFailed: an answer is wrong or missing. A missed speed does not raise: the verdict says so. CtrlabError: there is
                nothing to judge, or a claim is neither true nor false.
        """
        self._verdict = None
        try:
            gate.require_passed(checking.checks_of(self.lesson), self._passed)
            gate.require_something(models, losses, comparison, claims, claims_beyond_tiny)
            self._verdict = Verdict(
                self.lesson,
                self.profile.name,
                self.machine,
                tuple(sorted(self._solutions)),
                answers=gate.same_answers(models, batch) if models else None,
                difference=gate.largest_difference(losses, rtol) if losses else None,
                speed=gate.speed_of(comparison, variant, at_least, self.profile.name) if comparison else None,
                claims=gate.judged(claims or {}, claims_beyond_tiny or {}, self.profile.name),
            )
        finally:
            if self._verdict is None or not self._verdict.passed:
                self._keep(lambda record: record.end(None))  # an earlier one holds no longer
        gate.print_verdict(self._verdict, rtol)
        return self._verdict

    def finish(self) -> None:
        """Save the verdict, print how the GPU's memory is freed, and name the next lesson."""
        if self._verdict is None:
            raise CtrlabError("There is no verdict to save yet: run the gate's cell first.")
        saved = self._keep(lambda record: record.end(self._verdict))
        following = course.after(self.lesson)
        print(f"{'Saved' if saved else 'Not saved'}: {self._verdict}.")
        if "gpu" in course.lesson(self.lesson).needs:
            print("TensorFlow holds the GPU's memory until this kernel ends: Kernel, Shut Down Kernel.")
        print(f"Next: {following.title} ({following.name})." if following else "That was the last lesson so far.")


def show_comparison(comparison, baseline: str) -> None:
    """A table of measurements: the ratio to the baseline, its interval and the interval's coverage, and the percentage of the
    bound if the work is known. Three blocks give a coverage of 75 %, six and more 95 %.
    """
    from rich.console import Console
    from rich.table import Table

    bounds = {name: measurement.percent_of_bound for name, measurement in comparison.measurements.items()}
    known = any(bound is not None for bound in bounds.values())
    table = Table("variant", "times as fast", "interval (coverage)", *(["% of the bound"] if known else []))
    for name, bound in bounds.items():
        ratio = comparison.ratio(name)
        interval = f"{ratio.low:.2f} to {ratio.high:.2f} ({ratio.coverage:.0%})"
        row = ["1 (baseline)", ""] if name == baseline else [f"{ratio.median:.2f}", interval]
        table.add_row(name, *row, *([] if bound is None else [f"{bound:.2g}"]))
    Console().print(table)
