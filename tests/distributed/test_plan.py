"""Plans against sums by hand, and the command that prints them."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.distributed.plan import DAY, Task, plan, with_feature
from ctrlab.errors import CtrlabError

# Rows of 10 numbers with one slot: 10 (4 + 4) + 4 = 84 bytes, and 16 in the index. A link of 8 Gbit/s: 1 ns per byte.
TASK = Task(ids=1e9, dim=10, slots=1, dense=1e6, batch=10_000, day_examples=864e6, fixed=0.02, per_example=1e-5)
TASK = replace(TASK, memory=30e9, megabits=8_000, latency=1e-4, price=3.0, lookups=1, exponent=0)


def test_memory_says_how_many_workers_there_are_at_least():
    found = plan(TASK)
    assert (found.index, found.rows_in_memory, found.counts, found.on_disk) == (16e9, 84e9, 0, 0)
    assert found.shards == found.workers == 4 and found.memory == 100e9  # 3.3 memories
    assert plan(replace(TASK, replicas=2)).shards == 7
    assert plan(replace(TASK, slots=2, value_bytes=2)).memory == 1e9 * (16 + 4 + 10 * (2 + 8))


def test_ids_without_a_row_are_counted():
    exact, bloom = plan(replace(TASK, admission=0.25)), plan(replace(TASK, admission=0.25, counting="bloom"))
    assert exact.index == 4e9 and exact.rows_in_memory == 21e9 and exact.counts == 0.75e9 * 16
    assert bloom.counts == pytest.approx(1e9 * math.log(100) / math.log(2) ** 2)
    assert plan(replace(TASK, counting="bloom")).counts == 0  # every id has a row


def test_time_and_cost_are_those_of_the_simulated_step():
    found = plan(TASK)
    # 4 workers with 2,500 examples each. Of 1e9 equally frequent ids hardly any comes twice.
    assert found.compute == pytest.approx(0.02 + 2_500 * 1e-5)
    exchanged = 2_500 * (8 + 2 * 40)
    assert found.sent == pytest.approx(0.75 * (8e6 + exchanged), rel=1e-4)
    assert found.network == pytest.approx((6 + 9) * 1e-4 + 1e-9 * (1.5 * 4e6 + 0.75 * exchanged), rel=1e-4)
    assert found.step == pytest.approx(0.0527, rel=1e-3) and found.disk == 0
    assert found.epoch == pytest.approx(86_400 * found.step) and found.keeps_up  # 86,400 steps in a day
    assert found.cost == pytest.approx(found.epoch / 3_600 * 4 * 3.0)


def test_more_workers_are_taken_where_these_do_not_keep_up():
    slow = replace(TASK, per_example=2e-3)  # 4 workers would take 5 s per step, a day has 86,400 steps
    found = plan(slow)
    assert found.shards == 4 and found.keeps_up and found.epoch <= DAY
    # With n workers: 0.02 + 20 / n of compute, 5 (n - 1) messages of 0.1 ms, and 8.9 ms of bytes at most.
    assert found.workers == next(n for n in range(4, 99) if 0.02 + 20 / n + 5e-4 * (n - 1) + 0.0080 * (n - 1) / n <= 1)
    never = plan(replace(TASK, fixed=1.1))
    assert not never.keeps_up and never.epoch > DAY
    assert never.epoch == min(plan(replace(TASK, fixed=1.1, memory=100e9 / n)).epoch for n in range(4, 30))


def test_rows_on_disk_leave_memory_and_are_read():
    found = plan(replace(TASK, in_memory=0.1, reads=20_000))
    assert found.index == 16e9 and found.rows_in_memory == pytest.approx(8.4e9) and found.on_disk == pytest.approx(75.6e9)
    assert found.shards == 1 and found.workers == 1 and found.network == 0
    assert found.disk == pytest.approx(0.9 * 10_000 / 20_000, rel=0.01)  # nine of ten ids


def test_features_change_what_they_say():
    assert with_feature(TASK, "admission") == replace(TASK, admission=0.2, counting="bloom")
    assert with_feature(TASK, "disk").in_memory == 0.1 and with_feature(TASK, "bf16").value_bytes == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Task(ids=0), "ids is a number of at least 1; received 0"),
        (lambda: Task(admission=0.0), "admission is a share, above 0 and at most 1; received 0.0"),
        (lambda: Task(counting="guessed"), "Unknown way of counting 'guessed'"),
        (lambda: plan(Task(ids=1e15)), "at most 4,096 workers"),
        (lambda: with_feature(TASK, "gpu"), "Unknown feature 'gpu'"),
    ],
)
def test_a_plan_that_can_not_be_is_refused(wrong, says):
    with pytest.raises(CtrlabError, match=says):
        wrong()


def test_the_command_says_the_plan_and_what_would_change_it(tmp_path):
    path = tmp_path / "plan.json"
    options = ["--ids", "1e9", "--dim", "10", "--memory-gb", "30", "--price", "2.5", "--json", str(path)]
    ran = CliRunner().invoke(cli.app, ["workers", "plan", *options])
    assert ran.exit_code == 0, ran.output
    found = json.loads(path.read_text())
    asked = plan(Task(ids=1e9, dim=10, memory=30e9, price=2.5))
    assert found["as asked"] == asked.to_json()
    assert list(found) == ["as asked", "admission", "disk", "bf16", "all three"]
    assert f"{asked.cost:,.2f}" in ran.output and "keep up" in ran.output


def test_the_command_refuses_in_a_sentence():
    ran = CliRunner().invoke(cli.app, ["workers", "plan", "--admission", "2"])
    assert ran.exit_code == 1 and "admission is a share" in ran.output
