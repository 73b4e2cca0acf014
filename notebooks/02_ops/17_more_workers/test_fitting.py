"""The fit finds the constants from which steps were made."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ctrlab.lessons.topics.more_workers.fitting import PADDING, Errors, Fitted, Setting, check, fit, line_through
from ctrlab.lessons.topics.more_workers.null import Null
from typer.testing import CliRunner

from ctrlab.distributed.simulator.cluster import Host
from ctrlab.distributed.simulator.model import Distinct, Model
from ctrlab.errors import CtrlabError
from studies.app import app

RECORDS = Path(__file__).parents[3] / "data" / "measurements"
DISTINCT = Distinct((128.0, 256.0, 512.0, 1_024.0), (4_000.0, 7_000.0, 12_000.0, 20_000.0))
KNOWN = Fitted(
    Model(5e5, 0.003, 4e-5, dim=16, id_bytes=4, distinct=DISTINCT, reductions=15, sharing=0.02, per_id=2e-6, padding=PADDING),
    Host(2, computes=True, message=2e-4, byte=1.5e-8),
)


def made(fitted: Fitted, rates=(None, 100.0, 1_000.0), noise: float = 0.0):
    """(measured, alone) as the bench gives them, of steps that take what these constants say."""
    rng, measured = np.random.default_rng(1), []
    for workers in (2, 4):
        for batch in (512, 2_048):
            distinct = float(fitted.model.distinct(batch / workers))
            away = (workers - 1) / workers
            least = SimpleNamespace(
                dense=2 * away * 4 * fitted.model.dense, keys=away * distinct * 4, rows=away * distinct * 64, distinct=distinct
            )
            for rate in rates:
                seconds = fitted.seconds(workers, batch, rate) * (1 + noise * rng.standard_normal(9))
                facts = {
                    "link_seconds": 0.0 if rate is None else 8e-6 * 1e6 / rate,
                    "model": "dlrm",
                    "threads": int(fitted.host.threads),
                    "reduces": 15,
                    "exchanges": 3,
                    "least": least,
                }
                measured.append(SimpleNamespace(workers=workers, batch=batch, megabits=rate, seconds=seconds, **facts))
    alone = [
        SimpleNamespace(
            model="dlrm",
            workers=1,
            batch=int(n),
            seconds=[fitted.model.fixed + fitted.model.per_example * n],
            least=SimpleNamespace(distinct=count),
        )
        for n, count in zip(DISTINCT.examples, DISTINCT.ids)
    ]
    return measured, alone


def test_constants_are_found_again():
    found = fit(*made(KNOWN), cores=2)
    for name in ("dense", "fixed", "per_example", "dim", "id_bytes", "sharing", "per_id"):
        assert getattr(found.model, name) == pytest.approx(getattr(KNOWN.model, name), rel=1e-6), name
    assert found.host.message == pytest.approx(2e-4) and found.host.byte == pytest.approx(1.5e-8)
    assert found.model.distinct == DISTINCT


def test_threads_of_a_worker_are_part_of_the_fit():
    """With two threads each, two workers already wait for each other on two cores, and four wait twice as long."""
    busy = replace(KNOWN, host=replace(KNOWN.host, threads=2.0))
    found = fit(*made(busy), cores=2)
    assert found.host.threads == 2
    for name in ("sharing", "per_id"):
        assert getattr(found.model, name) == pytest.approx(getattr(KNOWN.model, name), rel=1e-6), name
    assert found.host.message == pytest.approx(2e-4) and found.host.byte == pytest.approx(1.5e-8)
    assert busy.seconds(2, 512, None) > 1.5 * KNOWN.seconds(2, 512, None)


def test_noise_moves_them_a_little_and_none_gets_negative():
    found = fit(*made(KNOWN, noise=0.03), cores=2)
    assert all(abs(each.error) < 0.05 for each in found.settings(made(KNOWN)[0]))
    nothing = replace(KNOWN, model=replace(KNOWN.model, sharing=0.0), host=replace(KNOWN.host, message=0.0))
    found = fit(*made(nothing, noise=0.03), cores=2)
    assert found.model.sharing >= 0 and found.host.message >= 0


def test_what_is_held_out_does_not_move_the_constants():
    measured, alone = made(KNOWN)
    spoilt = [SimpleNamespace(**(vars(m) | {"seconds": 3 * m.seconds})) if m.megabits == 100 else m for m in measured]
    found = check(spoilt, alone, measured[:1], held_rate=100, cores=2)
    assert {each.megabits for each in found.used} == {None, 1_000}
    assert [round(each.error, 3) for each in found.held_out] == [-0.667] * 4 + [0.0]
    assert found.errors.worst == pytest.approx(2 / 3)


def test_errors_have_a_bias_and_a_spread():
    of = Errors.of([Setting(2, 8, None, 1.0, simulated) for simulated in (0.7, 0.9, 1.1, 1.1)])
    assert (of.worst, of.bias, of.spread) == pytest.approx((0.3, -0.05, np.std([-0.3, -0.1, 0.1, 0.1])))


def test_the_null_model_is_a_line_shared_cores_the_link_and_one_constant_per_worker():
    null = Null(0.01, 1e-4, Host(2, threads=1, computes=True), per_worker=0.02)
    of = SimpleNamespace(workers=4, batch=400, link_seconds=0.3)
    assert null.seconds(of) == pytest.approx(2 * (0.01 + 0.01) + 0.3 + 4 * 0.02)
    assert null.seconds(SimpleNamespace(workers=1, batch=100, link_seconds=0.0)) == pytest.approx(0.02 + 0.02)
    measured = [
        SimpleNamespace(workers=w, batch=b, link_seconds=w * rate, seconds=[1.0])
        for w in (2, 3)
        for b in (64, 512)
        for rate in (0, 1)
    ]
    for m in measured:
        m.seconds = [null.seconds(m)]
    assert replace(null, per_worker=7.0).fit(measured).per_worker == pytest.approx(0.02)
    assert null.fit([SimpleNamespace(**(vars(m) | {"seconds": [1e-4]})) for m in measured]).per_worker == 0


def test_the_null_model_is_fitted_to_the_same_settings():
    measured, alone = made(KNOWN)
    spoilt = [SimpleNamespace(**(vars(m) | {"seconds": 3 * m.seconds})) if m.megabits == 100 else m for m in measured]
    one, other = (check(each, alone, [], held_rate=100, cores=2) for each in (measured, spoilt))
    assert one.null == other.null and one.null.per_worker > 0
    assert [each.measured for each in other.null_held_out] == [each.measured for each in other.held_out]
    assert one.null.fixed == pytest.approx(KNOWN.model.fixed) and one.null.host.cores == 2
    assert other.null_errors == Errors.of(other.null_held_out) != other.errors


def test_too_few_settings_or_two_models_are_refused():
    measured, alone = made(KNOWN)
    with pytest.raises(CtrlabError, match="settings of one model and one number of threads; received 3 of dlrm"):
        fit(measured[:3], alone, 2)
    other = SimpleNamespace(**(vars(measured[0]) | {"model": "din"}))
    with pytest.raises(CtrlabError, match="of din, dlrm"):
        fit([*measured, other], alone, 2)
    other = SimpleNamespace(**(vars(measured[0]) | {"threads": 2}))
    with pytest.raises(CtrlabError, match=r"of dlrm, with threads \[1, 2\]"):
        fit([*measured, other], alone, 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"workers": 1}, "The workers of a setting .* at least 2; received 1 at index 0"),
        ({"seconds": []}, "Seconds of 2 workers with 512 examples must be at least one number; received none"),
        ({"seconds": [0.1, float("nan")]}, "Seconds of 2 workers with 512 examples must be .* received nan at index 1"),
        ({"least": SimpleNamespace(dense=1.0, rows=1.0, distinct=0.0)}, "Distinct ids of a worker's part .* above 0; received 0"),
    ],
)
def test_a_setting_that_can_not_be_is_refused(wrong, says):
    measured, alone = made(KNOWN)
    with pytest.raises(CtrlabError, match=says):
        fit([SimpleNamespace(**(vars(measured[0]) | wrong)), *measured[1:]], alone, 2)


def test_what_is_held_out_must_be_steps_of_the_same_model():
    measured, alone = made(KNOWN)
    other = SimpleNamespace(**(vars(measured[0]) | {"model": "deepfm"}))
    with pytest.raises(CtrlabError, match=r"fitted to, dlrm; received steps of deepfm\.$"):
        check(measured, alone, [other], held_rate=100, cores=2)
    other = SimpleNamespace(**(vars(measured[0]) | {"seconds": []}))
    with pytest.raises(CtrlabError, match=r"Seconds of 2 workers .* received none"):
        check(measured, alone, [other], held_rate=100, cores=2)


def test_the_steps_of_one_process_must_be_there():
    measured, alone = made(KNOWN)
    alone[0].seconds = []
    with pytest.raises(CtrlabError, match=r"Seconds of 1 workers with 128 examples .* received none"):
        fit(measured, alone, 2)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_no_link_has_is_refused(rate):
    measured, alone = made(KNOWN)
    with pytest.raises(CtrlabError, match="The rate of links that are held out must be a finite number above 0; received"):
        check(measured, alone, measured[:1], held_rate=rate, cores=2)


def test_a_check_without_a_setting_that_is_held_out_is_refused():
    measured, alone = made(KNOWN)
    with pytest.raises(CtrlabError, match=r"links of 7 Mbit/s .* there is none\. Received the rates 100\.0, 1000\.0, None"):
        check(measured, alone, [], held_rate=7, cores=2)


def test_a_file_without_a_record_is_refused(tmp_path):
    for text, says in (
        ("[1]", "A file of records has one"),
        ("[]", "A file of records has one"),
        ("{", "is JSON"),
        ("[" * 100_000, "is JSON"),
        ("{}", "can't be read"),
        ('{"measured": [], "alone": []}', "holds no steps of several workers"),
    ):
        (tmp_path / "wrong.json").write_text(text)
        ran = CliRunner().invoke(app, ["simulator-check", *2 * [str(tmp_path / "wrong.json")]])
        assert ran.exit_code == 1 and says in ran.output and "wrong.json" in ran.output, text[:99]


def test_a_held_out_record_without_steps_is_refused(tmp_path):
    record = json.loads((RECORDS / "workers_held_out.json").read_text())
    (tmp_path / "empty.json").write_text(json.dumps(record | {"measured": []}))
    ran = CliRunner().invoke(app, ["simulator-check", str(RECORDS / "workers_fitted.json"), str(tmp_path / "empty.json")])
    assert ran.exit_code == 1 and "empty.json holds no steps of several workers" in ran.output


def test_a_line_is_fitted_relative_to_the_times():
    assert line_through({100: [0.3, 0.3, 9.0], 1_000: [2.1]}) == pytest.approx((0.1, 2e-3))
    assert line_through({100: [1.0], 200: [3.0]})[0] == 0.0
    assert line_through({100: [2.0], 200: [1.0]})[1] == 0.0
