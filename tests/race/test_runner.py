"""The race with workers that only pretend: pairing, dying workers, interruption, going on."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctrlab import profiles
from ctrlab.errors import BadData, CtrlabError
from ctrlab.race import contest, result, runner, score, seeds

DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell would have it ignored
from pathlib import Path
sys.path.insert(0, {tests!r})
from conftest import CEILINGS, FAKE_COMMAND
from ctrlab import profiles
from ctrlab.race import runner
plan = runner.Plan(("wdl", "deepfm"), ("none", "all"), profiles.PROFILES["tiny"], "generated")
try:
    state = Path({state!r})
    runner.race(plan, runner.begin(plan, state, False), state, CEILINGS, lambda *a: None, command=FAKE_COMMAND)
except KeyboardInterrupt as interrupt:
    sys.exit(str(interrupt))
"""


def test_every_variant_trains_its_steps_in_turns(fake, plan, run):
    turns = []
    found = run(plan, watch=lambda model, name, doing, *_: doing == "racing" and turns.append((model, name)))
    assert [m.model for m in found.models] == ["wdl", "deepfm", "dlrm"]
    assert [sorted(turns[i : i + 2]) for i in (0, 2, 4)] == [[("wdl", "all"), ("wdl", "none")]] * 3
    for entry in found.models:
        assert entry.steps == 20
        assert entry.blocks == (7, 7, 6)
        for variant in entry.variants:
            assert len(variant.losses) == 20
            assert variant.losses == tuple(1 / (i + 1) for i in range(20))  # the same order of batches for both
    assert "indicator" in found.models[0].variant("all").rungs
    assert score.speedup(found.models[0], "all").median == 2
    assert found.complete and not score.failures(found)


def test_a_variant_that_computes_something_else_is_not_timed(fake, plan, run):
    fake(differs=[["step of model/w", 0.12], ["loss", 0.02]])
    found = run(dataclasses.replace(plan, models=("deepfm",), sets=("none", "all", "bf16")))
    [entry] = found.models
    none, every, bf16 = entry.variants
    assert every.seconds == () and len(none.seconds) == len(bf16.seconds) == 3  # bf16 may: it says that it changes results
    assert score.failures(found)[0] == (
        "A variant must compute what the baseline computes; in the first step of deepfm with 'all' 2 tensors differ, most of all "
        "'step of model/w', by 0.12 of its norm."
    )


def test_the_seeds_aucs_are_kept_for_the_next_race(fake, plan, run):
    def doings():
        heard = []
        found = run(dataclasses.replace(plan, models=("wdl",)), watch=lambda model, name, doing, *_: heard.append(doing))
        return found.models[0].seed_auc, [doing for doing in heard if doing.startswith("seed")]

    first, trained = doings()
    again, trained_again = doings()
    assert first == again and len(trained) == plan.profile.seeds - 1 and trained_again == []
    [kept] = seeds.cache_folder().glob("aucs-wdl-*.json")
    kept.write_text(kept.read_text()[:-9])
    assert doings() == (first, trained), "a file that can't be read is made anew"


@pytest.mark.parametrize(
    "sets, misbehaves, trainer",
    [(("none", "all"), {}, "none"), (("none", "stock", "all"), {}, "stock"),
     (("none", "stock", "all"), {"die": ["deepfm", True, "train"]}, "none")],
)  # fmt: skip
def test_the_best_of_stock_trains_the_seeds_where_it_races_and_lives(fake, plan, run, sets, misbehaves, trainer):
    fake(**misbehaves)
    heard = []
    found = run(
        dataclasses.replace(plan, models=("deepfm",), sets=sets),
        watch=lambda model, name, doing, *_: heard.append((name, doing)),
    )
    assert {name for name, doing in heard if doing.startswith("seed")} == {trainer}
    assert [len(aucs) for aucs in found.models[0].seed_auc.values()] == [plan.profile.seeds]


def test_other_rows_steps_seeds_or_code_have_other_aucs(monkeypatch):
    places = {seeds.place_of("wdl", "rows", 20, [1]), seeds.place_of("wdl", "other", 20, [1])}
    places |= {
        seeds.place_of("wdl", "rows", 21, [1]),
        seeds.place_of("wdl", "rows", 20, [2]),
        seeds.place_of("din", "rows", 20, [1]),
    }
    monkeypatch.setattr(seeds, "versions", lambda: {"tensorflow": "9"})
    places.add(seeds.place_of("wdl", "rows", 20, [1]))
    known = seeds.imports.modules()
    code = seeds.imports.used("ctrlab.training.run", "ctrlab.race.worker", "ctrlab.models.wdl", known=known)
    used = {"ctrlab.training.loop", "ctrlab.training.optimizers", "ctrlab.models.blocks", "ctrlab.data.csv", "ctrlab.ops.lookup"}
    assert len(places) == 6 and used <= set(code)


def test_the_time_that_is_left_goes_down_to_nothing(fake, plan, run):
    left = []
    run(plan, watch=lambda *what: left.append(what[-1]))
    known = [seconds for seconds in left if seconds is not None]
    assert left[0] is None and min(known) >= 0 and known[-1] == pytest.approx(0, abs=1e-6)
    assert plan.trainings("dlrm") == 2 + plan.profile.seeds - 1


def test_sets_of_the_same_rungs_are_trained_once(fake, plan, run):
    turns = []
    sets = ("none", "indicator", "..indicator")
    found = run(dataclasses.replace(plan, sets=sets), watch=lambda model, name, doing, *_: turns.append((model, name)))
    dlrm, wdl = found.models[2], found.models[0]  # DLRM has no wide part: for it all three are the baseline
    assert {name for model, name in turns if model == "dlrm"} == {"none"}
    assert [v.optimizations for v in dlrm.variants] == list(sets)
    assert {v.seconds for v in dlrm.variants} == {dlrm.variant("none").seconds}
    assert wdl.variant("indicator").rungs == wdl.variant("..indicator").rungs == ("indicator",)


def test_result_survives_json(fake, plan, run, tmp_path):
    found = run(plan)
    assert result.load(tmp_path / "race.json") == found
    assert os.listdir(tmp_path) == ["race.json"]


@pytest.mark.parametrize("do", ["train", "evaluate"])
def test_training_that_fails_costs_its_variant_only(fake, plan, run, do):
    fake(refuse=["wdl", True, do])
    found = run(plan)
    assert "The data must be there" in found.models[0].variant("all").error
    assert not found.models[0].variant("none").error and found.models[1].complete
    assert score.total_seconds(found, "all") is None


@pytest.mark.parametrize("how", ["die", "crash"])
def test_a_dead_worker_costs_its_variant_only(fake, plan, run, how):
    fake(**{how: ["wdl", True, "train"]})
    found = run(plan)
    lost = found.models[0].variant("all")
    assert "wdl with 'all'" in lost.error
    assert ("SIGKILL" if how == "die" else "something is rotten") in lost.error
    assert not found.models[0].variant("none").error
    assert found.models[1].complete and not found.complete
    assert score.total_seconds(found, "all") is None
    assert score.total_seconds(found, "none") > 0
    assert score.failures(found) == [lost.error]

    fake()
    again = run(plan, resume=True)
    assert again.complete
    assert again.models[1] == found.models[1]  # what was done is kept


@pytest.mark.parametrize("do", ["train", "evaluate", "retrain"])
def test_without_a_baseline_nothing_counts(fake, plan, run, do):
    fake(die=["wdl", False, do])
    found = run(plan)
    assert not score.verdict(found.models[0], found.models[0].variant("all")).passed
    assert not found.models[0].complete


def test_a_problem_of_the_worker_ends_the_race_in_one_sentence(fake, plan, run, tmp_path):
    fake(refuse=["deepfm", False, "open"])
    with pytest.raises(CtrlabError, match="The data must be there"):
        run(plan)
    assert [m.model for m in result.load(tmp_path / "race.json").models] == ["wdl"]


def test_no_worker_at_all_is_an_error(fake, plan, run):
    fake(die=["wdl", False, "open"], crash=["wdl", True, "open"])
    with pytest.raises(CtrlabError, match="wdl with 'none'"):
        run(plan)


def test_resume_refuses_another_race(fake, plan, run):
    run(dataclasses.replace(plan, models=("wdl",)))
    with pytest.raises(CtrlabError, match="same sets"):
        run(dataclasses.replace(plan, sets=("none", "indicator")), resume=True)


def test_resume_takes_more_models(fake, plan, run):
    first = run(dataclasses.replace(plan, models=("deepfm",)))
    ran = []
    both = run(plan, resume=True, watch=lambda model, *rest: ran.append(model))
    assert "deepfm" not in ran
    assert both.models[1] == first.models[0]
    assert [m.model for m in both.models] == ["wdl", "deepfm", "dlrm"]


def test_what_was_measured_in_a_busy_moment_raises_no_floor(fake, plan, run, monkeypatch):
    plan = dataclasses.replace(plan, models=("deepfm",))
    [busy] = run(plan).models
    low = busy.ceilings
    quiet = dataclasses.replace(low, sgemm=2 * low.sgemm)
    [again] = run(plan, resume=True, ceilings=quiet).models
    assert again.variants == busy.variants and again.floor == busy.floor / 2
    monkeypatch.setattr(runner, "measured_ceilings", lambda measure_again=False: low if measure_again else quiet)
    monkeypatch.setattr(runner.data, "prepare", lambda *names, **options: None)
    assert runner.prepare(dataclasses.replace(plan, profile=profiles.PROFILES["lesson"])) == quiet


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 99}', '{"version": 1}', '{"version": 1, "settings": 3}'])
def test_resume_from_rubbish_is_one_sentence(fake, plan, run, tmp_path, content):
    (tmp_path / "race.json").write_text(content)
    with pytest.raises(BadData, match=r"race\.json"):
        run(plan, resume=True)
    assert (tmp_path / "race.json").read_text() == content


def start_driver(tmp_path):
    """A race in a process of its own whose second model hangs; returns it when the first model is done."""
    state = tmp_path / "race.json"
    code = DRIVER.format(tests=str(Path(__file__).parent), state=str(state))
    driver = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (state.exists() and len(children(driver.pid)) == 2):
        assert time.monotonic() < until and driver.poll() is None, driver.communicate()
        time.sleep(0.05)
    time.sleep(0.3)  # one of the two now hangs, the other is stopped
    return driver, children(driver.pid)


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_interrupted_the_race_keeps_what_is_done_and_leaves_no_worker(fake, plan, run, tmp_path, sign):
    fake(hang=["deepfm", True, "train"])
    driver, workers = start_driver(tmp_path)
    driver.send_signal(sign)
    _, message = driver.communicate(timeout=60)
    assert driver.returncode != 0
    if sign == signal.SIGINT:
        assert "1 of 2 models are kept" in message and "--resume" in message and "Traceback" not in message
    until = time.monotonic() + 10
    while any(map(alive, workers)):
        assert time.monotonic() < until, "a worker outlived its race"
        time.sleep(0.05)
    assert os.listdir(tmp_path) == ["race.json"]

    fake()
    ran = []
    found = run(dataclasses.replace(plan, models=("wdl", "deepfm")), resume=True, watch=lambda model, *rest: ran.append(model))
    assert set(ran) == {"deepfm"}
    assert found.complete
    assert found.asked == ("wdl", "deepfm") and contest.BASELINE in found.settings.sets
