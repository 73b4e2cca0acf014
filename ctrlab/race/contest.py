"""The contest whose score the race keeps: the Tianchi / Intel "DeepRec CTR model performance optimization" of 2022.

Six models train one after another for a fixed number of steps; the score is the sum of their training seconds, lower is
better, and a model whose AUC falls under its bar spoils the whole run. Source: `tianchi/` in github.com/DeepRec-AI/DeepRec.
"""

from __future__ import annotations

from ctrlab import optimizations as ladder
from ctrlab.errors import CtrlabError, choose
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import Profile

STEPS = {"wdl": 1_800, "deepfm": 110, "dlrm": 11_600, "din": 16_000, "dien": 2_700, "mmoe": 27_700}

# The contest's bars, for those models whose judged data a user can still get: Amazon Books, as the authors of DIEN prepared it.
BOOKS_BARS = {"din": 0.712, "dien": 0.748}
# Books has more than a million training rows; the other Amazon categories that fit the same schema have far fewer.
BOOKS_ROWS = 1_000_000

# The contest's food delivery set is not public, nor is a Taobao set with purchases: with `--data real` others stand in for them.
STAND_INS = {"food_delivery": "criteo", "taobao": "census_income"}

BASELINE = "none"
UP_TO = ".."


def data_set(model: str, source: str) -> str:
    """The data set that `model` races on, for `source` "generated" or "real"."""
    own = DATA_SETS[model]
    return STAND_INS.get(own, own) if source == "real" else own


def steps(model: str, profile: Profile) -> int:
    """The steps of the contest's count that `profile` trains."""
    return max(profile.min_steps, round(profile.step_share * STEPS[model]))


def blocks(total: int, count: int) -> tuple[int, ...]:
    """`total` steps in at most `count` blocks that differ by one step at most.

    >>> blocks(20, 3)
    (7, 7, 6)
    """
    count = min(total, count)
    return tuple(total // count + (i < total % count) for i in range(count))


def bar(model: str, profile: Profile, source: str, rows: int) -> float | None:
    """The contest's own AUC bar, where this run is what the contest judged; else None."""
    judged = profile.name == "full" and source == "real" and rows >= BOOKS_ROWS
    return BOOKS_BARS.get(model) if judged else None


def parse_models(names: str) -> tuple[str, ...]:
    """The models meant by "all" or a comma list, in the contest's order.

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
    """The sets of optimizations in a comma list, the baseline first, since it always races.

    A set is made of rungs: names joined with "+", less names or whole levels (model, input, run) after a "-". "..name" is every
    rung up to `name` that changes no results, and "ladder" stands for those sets, rung after rung.

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
