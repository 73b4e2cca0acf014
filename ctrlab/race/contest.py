"""The contest that defines the score: the Tianchi / Intel "DeepRec CTR model performance optimization" of 2022.

Six models train one after another for a fixed number of steps. The score is the sum of their training seconds; lower is better.
If a model's AUC is below its bar, the whole run is invalid. Source: `tianchi/` in github.com/DeepRec-AI/DeepRec.
"""

from __future__ import annotations

from ctrlab import optimizations as ladder
from ctrlab.errors import CtrlabError, choose
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import Profile

STEPS = {"wdl": 1_800, "deepfm": 110, "dlrm": 11_600, "din": 16_000, "dien": 2_700, "mmoe": 27_700}

# The contest's AUC bars, for the models whose data is still available: Amazon Books, as prepared by the authors of DIEN.
BOOKS_BARS = {"din": 0.712, "dien": 0.748}
# Books has more than a million training rows; the other Amazon categories with this schema have far fewer.
BOOKS_ROWS = 1_000_000

# The contest's food delivery set is not public, and no public Taobao set has purchases: `--data real` uses others instead.
STAND_INS = {"food_delivery": "criteo", "taobao": "census_income"}

BASELINE = "none"
UP_TO = ".."


def data_set(model: str, source: str) -> str:
    """The data set on which `model` races, for `source` "generated" or "real"."""
    own = DATA_SETS[model]
    return STAND_INS.get(own, own) if source == "real" else own


def steps(model: str, profile: Profile) -> int:
    """The number of steps that `profile` trains, a share of the contest's."""
    return max(profile.min_steps, round(profile.step_share * STEPS[model]))


def blocks(total: int, count: int) -> tuple[int, ...]:
    """Splits `total` steps into at most `count` blocks whose lengths differ by at most one step.

    >>> blocks(20, 3)
    (7, 7, 6)
    """
    count = min(total, count)
    return tuple(total // count + (i < total % count) for i in range(count))


def bar(model: str, profile: Profile, source: str, rows: int) -> float | None:
    """The contest's AUC bar if this run uses the contest's data and steps; else None."""
    judged = profile.name == "full" and source == "real" and rows >= BOOKS_ROWS
    return BOOKS_BARS.get(model) if judged else None


def parse_models(names: str) -> tuple[str, ...]:
    """The models in "all" or in a comma-separated list, in the contest's order.

    Raises:
        UnknownName: no such model. CtrlabError: no model at all.
    """
    asked = [part.strip() for part in names.split(",") if part.strip()]
    for name in asked:
        choose("model", name, ["all", *STEPS])
    if not asked:
        raise CtrlabError(f"A race needs at least one model; got {names!r}. Give all, or some of {', '.join(STEPS)}.")
    return tuple(m for m in STEPS if m in asked or "all" in asked)


def parse_sets(sets: str) -> tuple[str, ...]:
    """The sets of optimizations in a comma-separated list. The baseline comes first and always races.

    A set consists of rungs: names joined with "+", minus names or whole levels (model, input, run) after a "-". "..name" is every
    rung up to `name` that does not change results, and "ladder" is the list of these sets, one per rung.

    Raises:
        UnknownName: no such optimization.

    >>> parse_sets("all-input,all")
    ('none', 'all-input', 'all')
    """
    asked = [part.strip() for part in sets.split(",") if part.strip()]
    climbed = [f"{UP_TO}{rung.name}" for rung in ladder.LADDER if not rung.changes_results]
    named = [name for part in asked for name in (climbed if part == "ladder" else [part])]
    for name in named:
        rungs_of_set(name)
    return tuple(dict.fromkeys((BASELINE, *named)))


def rungs_of_set(name: str) -> tuple[str, ...]:
    """The rungs of a set such as "none", "all", "indicator+gru", "all-input" or "..gru", in the ladder's order."""
    if name == "all+results":
        return ladder.resolve(name)
    if name.startswith(UP_TO):
        last = choose("optimization", name.removeprefix(UP_TO), ladder.RUNGS)
        order = list(ladder.RUNGS)
        return tuple(r for r in ladder.resolve("all") if order.index(r) <= order.index(last))
    added, *removed = name.split("-")
    for less in removed:
        choose("optimization or level", less, [*ladder.LEVELS, *ladder.RUNGS])
    return tuple(r for r in ladder.resolve(added.split("+")) if not {r, ladder.RUNGS[r].level} & set(removed))


def rungs_for(model: str, name: str) -> tuple[str, ...]:
    """The rungs of a set that touch `model`."""
    return tuple(r for r in rungs_of_set(name) if model in ladder.RUNGS[r].models)
