"""The arithmetic of the score and the rule on the AUC."""

import dataclasses
import statistics

import pytest

from ctrlab import profiles
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.profiling.work import Ceilings, Work
from ctrlab.race import contest, score
from ctrlab.race.result import ModelRace, RaceResult, Settings, Variant

LESSON, FULL = profiles.PROFILES["lesson"], profiles.PROFILES["full"]


def entry(model="deepfm", none=(2.0, 2.0, 1.0), every=(1.0, 1.0, 0.5), auc=0.70, blocks=(4, 4, 2), **changes) -> ModelRace:
    variants = (
        Variant("none", (), none, auc={"clicked": 0.70}),
        Variant("all", ("indicator",), every, auc={"clicked": auc}),
    )
    floor = Work(flops=1e9), Ceilings(1e11, 1e11, 1e10, 1e10, 1e8, 1e9)  # 10 ms a step
    made = ModelRace(model, "food_delivery", 4096, 819, 512, blocks, *floor, variants, {"clicked": (0.70, 0.71, 0.72)}, "fake")
    return dataclasses.replace(made, **changes)


def race_of(*entries) -> RaceResult:
    settings = Settings("tiny", "generated", ("none", "all"), {}, "fake")
    return RaceResult(settings, tuple(e.model for e in entries), entries)


def test_seconds_are_weighted_back_to_the_contest():
    wdl, deepfm = entry("wdl"), entry("deepfm")
    assert score.contest_seconds(deepfm, deepfm.variant("none")) == pytest.approx(5.0 / 10 * 110)
    assert score.total_seconds(race_of(wdl, deepfm), "all") == pytest.approx(2.5 / 10 * (110 + 1800))
    assert score.floor_seconds(deepfm) == pytest.approx(1.1)
    assert score.percent_of_floor(deepfm, deepfm.variant("none")) == pytest.approx(100 * 0.01 / 0.5)


def test_the_total_ratio_is_the_ratio_of_totals():
    """WDL twice as fast, DLRM not at all, and DLRM has 6.44 times the steps: the slow giant decides."""
    wdl, dlrm = entry("wdl"), entry("dlrm", every=(2.0, 2.0, 1.0))
    ratio = score.total_speedup(race_of(wdl, dlrm), "all")
    assert ratio.median == pytest.approx((1800 + 11600) / (900 + 11600))
    assert score.speedup(wdl, "all").median == 2
    assert score.speedup(dlrm, "all").median == 1


def test_a_ratio_pairs_blocks():
    """Noise that both meet in one block leaves the ratio alone."""
    noisy = entry(none=(20.0, 2.0, 1.0), every=(10.0, 1.0, 0.5))
    ratio = score.speedup(noisy, "all")
    assert (ratio.low, ratio.median, ratio.high) == (2, 2, 2)


def test_few_blocks_claim_no_interval():
    assert "least and the greatest of 3 blocks" in score.interval_note(race_of(entry()))
    assert "95 % interval over" in score.interval_note(race_of(entry(blocks=(1,) * 9)))


def test_auc_may_fall_three_standard_deviations_and_no_further():
    values = (0.70, 0.71, 0.72)
    least = statistics.fmean(values) - 3 * statistics.stdev(values)
    assert least == pytest.approx(0.68)
    assert score.thresholds(entry()) == {"clicked": pytest.approx(0.68)}
    assert score.verdict(entry(auc=0.681), entry(auc=0.681).variant("all")).passed
    fallen = entry(auc=0.679)
    found = score.verdict(fallen, fallen.variant("all"))
    assert not found.passed
    assert "0.6800" in found.reason and "0.6790" in found.reason and "deepfm with 'all'" in found.reason
    assert score.total_seconds(race_of(fallen), "all") is None
    assert score.total_seconds(race_of(fallen), "none") is not None
    assert score.failures(race_of(fallen)) == [found.reason]


def test_an_auc_that_is_no_number_fails():
    assert not score.verdict(entry(auc=float("nan")), entry(auc=float("nan")).variant("all")).passed


def test_every_task_is_held_to_its_own():
    two = entry("mmoe", seed_auc={"click": (0.7, 0.71, 0.72), "buy": (0.8, 0.81, 0.82)})
    good = Variant("all", (), two.variants[0].seconds, auc={"click": 0.70, "buy": 0.80})
    assert score.verdict(two, good).passed
    assert "'buy'" in score.verdict(two, dataclasses.replace(good, auc={"click": 0.70, "buy": 0.70})).reason


@pytest.mark.parametrize("seeds", [(0.7, 0.8), (0.5, 0.9, 0.9), (0.1, 0.9, 0.9, 0.9, 0.9)])
def test_the_baseline_cannot_fail_by_its_own_seeds(seeds):
    held = entry(seed_auc={"clicked": seeds})
    assert min(seeds) >= score.thresholds(held)["clicked"]


def test_the_contests_bars_hold_for_the_full_books_only():
    assert contest.bar("dien", FULL, "real", 1_086_120) == 0.748
    assert contest.bar("din", FULL, "real", 1_086_120) == 0.712
    assert contest.bar("wdl", FULL, "real", 1_086_120) is None
    assert contest.bar("dien", FULL, "real", 139_272) is None
    assert contest.bar("dien", LESSON, "real", 1_086_120) is None
    assert contest.bar("dien", FULL, "generated", 8_000_000) is None
    judged = entry("dien", bar=0.748, auc=0.74)
    assert "0.7480" in score.verdict(judged, judged.variant("all")).reason


def test_steps_are_the_contests_share():
    assert {m: contest.steps(m, FULL) for m in contest.STEPS} == contest.STEPS
    assert contest.steps("mmoe", dataclasses.replace(LESSON, step_share=0.01)) == round(0.01 * 27_700)
    assert contest.steps("deepfm", LESSON) == LESSON.rows // 512  # never less than once over the rows


@pytest.mark.parametrize(("total", "count"), [(20, 3), (20, 9), (138, 9), (2, 5)])
def test_blocks_lose_no_step(total, count):
    found = contest.blocks(total, count)
    assert sum(found) == total and max(found) - min(found) <= 1 and len(found) == min(total, count)


def test_the_gap_is_that_from_the_best_of_stock_to_the_floor():
    """Stock takes 5 / 10 = .5 s a step, the floor is .01: .255 is half of the way."""
    half = Variant("all", ("indicator",), (1.0, 1.0, 0.55), auc={"clicked": 0.70})
    rival = Variant("stock", ("stock",), (2.0, 2.0, 1.0), auc={"clicked": 0.70})
    raced = entry(variants=(rival, half))
    assert score.gap_closed(raced, half) == pytest.approx(50)
    assert score.gap_closed(raced, dataclasses.replace(half, seconds=(4.0, 4.0, 2.0))) < 0
    assert score.gap_closed(raced, rival) is None
    assert score.gap_closed(entry(), half) is None


def test_names_of_sets_and_models():
    assert contest.parse_sets("all") == ("none", "all")
    assert contest.parse_sets("none, indicator ,all+results") == ("none", "indicator", "all+results")
    assert "indicator" in contest.rungs_for("deepfm", "all")
    assert contest.rungs_for("din", "indicator") == ()
    assert "indicator" not in contest.rungs_for("deepfm", "all-model")
    assert contest.rungs_of_set("all-indicator") == tuple(r for r in contest.rungs_of_set("all") if r != "indicator")
    assert contest.rungs_of_set("..indicator") == ("indicator",)
    assert contest.rungs_of_set("stock") == ("stock",)
    climbed = contest.parse_sets("ladder")
    assert climbed[:2] == ("none", "..indicator")
    assert contest.rungs_of_set(climbed[-1]) == contest.rungs_of_set("all")
    with pytest.raises(UnknownName, match="'input'"):
        contest.parse_sets("all-imput")
    with pytest.raises(CtrlabError, match="goes alone"):
        contest.parse_sets("stock+indicator")
    assert contest.parse_models("mmoe,wdl") == ("wdl", "mmoe")
    assert contest.parse_models("all") == tuple(contest.STEPS)
    with pytest.raises(UnknownName, match="'indicator'"):
        contest.parse_sets("none,indicater")
    with pytest.raises(UnknownName, match="'deepfm'"):
        contest.parse_models("deepfn")
