"""Plans against sums by hand, and the command that prints them."""

import json
import math
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.cli.workers.plan import command
from ctrlab.distributed.plan import DAY, FEATURES, MOST_ROWS, STORE_ENTRY_BYTES, STORE_LOAD, plan, with_feature
from ctrlab.distributed.task import MOST_DIM, Task
from ctrlab.embedding import EmbeddingVariable, analysis
from ctrlab.embedding.store import segments
from ctrlab.embedding.store.native import Store
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError

# Rows of 10 numbers with one slot: 10 (4 + 4) + 4 = 84 bytes, and 27 in the index. A link of 8 Gbit/s: 1 ns per byte.
TASK = Task(ids=1e9, dim=10, slots=1, dense=1e6, batch=10_000, day_examples=864e6, fixed=0.02, per_example=1e-5)
TASK = replace(TASK, memory=30e9, headroom=0.0, megabits=8_000, latency=1e-4, price=3.0, lookups=1, exponent=0)


def test_memory_says_how_many_workers_there_are_at_least():
    found = plan(TASK)
    assert (found.index, found.rows_in_memory, found.counts, found.on_disk) == (27e9, 84e9, 0, 0)
    assert found.shards == found.workers == 4 and found.memory == found.index + 84e9  # 3.7 memories
    assert plan(replace(TASK, headroom=0.2)).shards == 5  # 4.6
    assert plan(replace(TASK, slots=2, value_bytes=2)).rows_in_memory == 1e9 * (4 + 10 * (2 + 8))
    assert plan(replace(TASK, exchange_bytes=2)).memory == found.memory


def test_no_worker_has_more_rows_of_a_table_than_it_can_number():
    narrow = replace(TASK, ids=4.0 * MOST_ROWS, dim=1, memory=1e12)  # 39 bytes per id: all in one memory
    assert plan(narrow).shards == plan(narrow).workers == 4
    assert plan(replace(narrow, ids=4.0 * MOST_ROWS + 4_096)).shards == 5
    assert plan(replace(narrow, tables=4)).shards == 1 and plan(replace(narrow, tables=3)).shards == 2
    # Neither rows on disk nor ids that are only counted are numbered so.
    assert plan(replace(narrow, in_memory=0.25)).shards == 1 and plan(replace(narrow, admission=0.25)).shards == 1
    assert plan(replace(narrow, memory=40e9)).shards == 9  # then memory decides


@pytest.mark.parametrize("count", [250_000, 340_000])
def test_a_tables_index_takes_what_a_plan_says(count):
    table, keys = EmbeddingVariable("ids", 1), np.random.default_rng(0).integers(-(2**62), 2**62, count)
    steps = np.ones(count, np.int64)
    table.load_state(TableState(keys, np.zeros((count, 1), np.float32), {}, steps, steps))
    index = table.stats().bytes - count * (4 + 4)  # without values and frequencies
    assert index / count == pytest.approx(analysis.INDEX_BYTES, abs=0.5)
    assert analysis.report({"ids": table.state()})["row_bytes"][0].as_py() == analysis.INDEX_BYTES + 4 + 4


def test_the_index_of_rows_on_disk_takes_what_a_plan_says(tmp_path):
    """Its worst is just after its shards have doubled, all of them between 200,000 and 220,000 rows."""
    keys, sizes = np.random.default_rng(0).integers(-(2**62), 2**62, 260_000), {}
    for rows in (1, 200_000, 220_000, 260_000):
        for count in (rows, 0):  # opened again, it has no record of its own writing in memory
            with Store(tmp_path / str(rows), 1) as store:
                store.put(keys[:count], np.zeros((count, 1)))
                sizes[rows] = store.stats().memory_bytes
    of_row = {rows: (size - sizes[1]) / rows for rows, size in sizes.items()}
    worst = STORE_ENTRY_BYTES / STORE_LOAD
    assert of_row[200_000] < 0.7 * worst and 0.9 * worst < of_row[220_000] <= worst and of_row[260_000] < 0.9 * worst


def test_ids_without_a_row_are_counted():
    exact, bloom = plan(replace(TASK, admission=0.25)), plan(replace(TASK, admission=0.25, counting="bloom"))
    assert exact.index == 0.25e9 * 27 and exact.rows_in_memory == 21e9
    assert exact.counts == 0.75e9 * 27 and bloom.index == exact.index
    assert bloom.counts == pytest.approx(1e9 * math.log(100) / math.log(2) ** 2)
    assert plan(replace(TASK, counting="bloom")).counts == 0  # every id has a row


def test_time_and_cost_are_those_of_the_simulated_step():
    found = plan(TASK)
    # 4 workers with 2,500 examples each. Of 1e9 equally frequent ids hardly any comes twice.
    assert found.compute == pytest.approx(0.02 + 2_500 * 1e-5)
    exchanged = 2_500 * (16 + 2 * 40)
    assert found.sent == pytest.approx(0.75 * (8e6 + exchanged), rel=1e-4)
    assert found.network == pytest.approx((6 + 3) * 1e-4 + 1e-9 * (1.5 * 4e6 + 0.75 * exchanged), rel=1e-4)
    assert found.step == pytest.approx(0.0521, rel=1e-3) and found.disk == 0
    assert found.epoch == pytest.approx(86_400 * found.step) and found.keeps_up  # 86,400 steps in a day
    assert found.cost == pytest.approx(found.epoch / 3_600 * 4 * 3.0)


def test_more_workers_are_taken_where_these_do_not_keep_up():
    slow = replace(TASK, per_example=2e-3)  # 4 workers would take 5 s per step, a day has 86,400 steps
    found = plan(slow)
    assert found.shards == 4 and found.keeps_up and found.epoch <= DAY
    # With n workers: 0.02 + 20 / n of compute, 2 (n - 1) + 3 messages of 0.1 ms, and 8.9 ms of bytes at most.
    assert found.workers == next(n for n in range(4, 99) if 0.02 + 20 / n + 1e-4 * (2 * n + 1) + 0.0080 * (n - 1) / n <= 1)
    never = plan(replace(TASK, fixed=1.1))
    assert not never.keeps_up and never.epoch > DAY
    assert never.epoch == min(plan(replace(TASK, fixed=1.1, memory=100e9 / n)).epoch for n in range(4, 30))


def test_no_worker_is_without_an_example_and_no_step_is_half():
    task = Task(ids=1e6, lookups=1, batch=1, day_examples=86_400, fixed=0, per_example=20.0)
    alone = plan(task)
    assert alone.workers == 1 and alone.compute == 20 and not alone.keeps_up
    five = plan(replace(task, batch=5, per_example=10.0, memory=60e6, day_examples=101))
    assert five.shards == 3 and five.compute == 20 and five.epoch == pytest.approx(21 * five.step)  # 2 + 2 + 1 examples
    assert plan(replace(task, batch=5, memory=60e6)).workers == 5
    with pytest.raises(CtrlabError, match="a step has an example for at most 2 workers"):
        plan(replace(task, batch=2, memory=60e6))


@pytest.mark.parametrize("counting", ["exact", "bloom"])
@pytest.mark.parametrize("admission", [0.8, 1.0])
def test_three_workers_with_rows_on_disk_take_what_sums_say(counting, admission):
    task = Task(ids=100, dim=6, slots=2, admission=admission, counting=counting, exchange_bytes=2, dense=5_000, lookups=7)
    task = replace(task, exponent=1.05, batch=47, day_examples=470, fixed=0.003, per_example=2e-4, headroom=0.25)
    task = replace(task, in_memory=0.3, reads=9e3, writes=3e5, megabits=80, latency=1e-3, price=7.0)
    rows, row = round(100 * admission), 6 * (4 + 8) + 4
    warm = round(0.3 * rows)
    index = warm * 27 + (rows - warm) * 16 / 0.4
    counts = {"exact": (100 - rows) * 27, "bloom": 100 * math.log(100) / math.log(2) ** 2 if rows < 100 else 0}[counting]
    memory = index + warm * row + counts
    found = plan(replace(task, memory=memory / 2.5 / 0.75))

    each = 7 * 16  # ids of the worker with 16 of the 47 examples
    chance = np.arange(1, 101) ** -1.05 / np.sum(np.arange(1, 101) ** -1.05)
    seen = 1 - (1 - chance) ** each
    exchanged, cold = seen.sum() * (16 + 2 * 2 * 6), seen[warm:rows].sum()
    network = (4 + 3) * 1e-3 + 1e-7 * (4 / 3 * 4 * 5_000 + 2 / 3 * exchanged)
    disk = cold / 9e3 + cold * (24 + row + 4 + 16) / 3e5
    step = 0.003 + 16 * 2e-4 + network + disk
    assert (found.shards, found.workers, found.keeps_up) == (3, 3, True)
    wanted = {"index": index, "rows_in_memory": warm * row, "counts": counts, "memory": memory}
    wanted |= {"on_disk": (rows - warm) * (24 + row + 4 + 16), "sent": 4 / 3 * 4 * 5_000 + 2 / 3 * exchanged}
    wanted |= {"compute": 0.003 + 16 * 2e-4, "network": network, "disk": disk, "step": step}
    wanted |= {"epoch": 10 * step, "cost": 10 * step / 3_600 * 3 * 7}
    assert {name: getattr(found, name) for name in wanted} == pytest.approx(wanted, rel=1e-9)


def test_features_change_what_they_say():
    assert with_feature(TASK, "admission") == replace(TASK, admission=0.2, counting="bloom")
    assert with_feature(TASK, "disk") == replace(TASK, in_memory=0.1)
    assert with_feature(TASK, "bf16_exchange") == replace(TASK, exchange_bytes=2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Task(ids=0), "ids must be 1 to 9.22337203685e\\+18; received 0"),
        (lambda: Task(ids=1e308, dim=1_000_000), "ids must be"),
        (lambda: Task(dim=10**400), "dim must be a whole number, 1 to 262,144; received 1000"),
        (lambda: Task(exponent=1e3), "exponent must be 0 to 10; received 1000.0"),
        (lambda: Task(latency=math.nan), "latency must be 0 to 86,400 seconds; received nan"),
        (lambda: Task(memory=256e18), "memory must be 1,000 to 1e\\+14 bytes; received 2.56e\\+20"),
        (lambda: Task(batch=1.5), "batch must be a whole number, 1 to 1,000,000,000; received 1.5"),
        (lambda: Task(price="4 EUR"), "price must be 0 to 1,000,000; received '4 EUR'"),
        (lambda: Task(slots=True), "slots must be a whole number, 0 to 16; received True"),
        (lambda: Task(in_memory=1.1), "in memory must be 0 to 1; received 1.1"),
        (lambda: Task(counting="guessed"), "Unknown way of counting 'guessed'"),
        (lambda: plan(Task(ids=1e15)), "but a plan is for at most 4,096 workers"),
        (lambda: Task(tables=0), "tables must be a whole number, 1 to 1,000,000; received 0"),
        (
            lambda: plan(Task(ids=1e13, memory=1e14)),
            r"at most 2,147,483,647 rows of a table in memory, so 1e\+13 rows in 1 table take 4,657 workers, but a plan is for",
        ),
        (lambda: plan(Task(ids=5e9, memory=1e13, batch=2)), "take 3 workers, but a step has an example for at most 2"),
        (lambda: with_feature(TASK, "gpu"), "Unknown feature 'gpu'"),
    ],
)
def test_a_plan_that_can_not_be_is_refused(wrong, says):
    with pytest.raises(CtrlabError, match=says):
        wrong()


def test_a_row_has_as_many_numbers_as_a_store_takes():
    assert segments.MOST_ROW_BYTES // np.dtype(np.float32).itemsize == MOST_DIM


def said(output: str) -> dict[str, list[str]]:
    """The table's lines."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    return {name: cells for name, *cells in lines}


def test_the_command_passes_on_every_option_and_shows_the_plan(tmp_path):
    path = tmp_path / "plan.json"
    task = Task(
        2e9, 3, 10, 2, 0.9, "bloom", 3, 2, 3e6, 50.0, 1.2, 30_000, 2e8, 0.004, 3e-6, 30e9, 0.2, 0.7, 300e3, 5e8, 8e3, 2e-4, 2.5
    )
    rows = {
        "ids": 2e9,
        "tables": 3,
        "dim": 10,
        "slots": 2,
        "admission": 0.9,
        "counting": "bloom",
        "value-bytes": 3,
        "exchange-bytes": 2,
    }
    data = {"dense": 3e6, "lookups": 50, "exponent": 1.2, "batch": 30_000, "day-examples": 2e8, "step-ms": 4, "example-us": 3}
    worker = {"memory-gb": 30, "headroom": 0.2, "in-memory": 0.7, "reads": 300e3, "writes-mb": 500, "megabits": 8e3}
    options = rows | data | worker | {"latency-us": 200, "price": 2.5, "json": path}
    taken = signature(command).parameters
    assert [name.replace("_path", "").replace("_", "-") for name in taken] == list(options)
    assert all(options[name.replace("_", "-")] != taken[name].default for name in taken if name != "json_path")
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(
        cli.app, ["workers", "plan", *(word for name in options for word in (f"--{name}", str(options[name])))]
    )
    assert ran.exit_code == 0, ran.output
    tasks = {"as asked": task} | {feature: with_feature(task, feature) for feature in FEATURES}
    every = replace(task, admission=0.9 * 0.2, in_memory=0.1 * 0.7, exchange_bytes=2)
    found = json.loads(path.read_text())
    assert list(found) == [*tasks, "all three"]
    for name, asked in (tasks | {"all three": every}).items():
        assert found[name] == pytest.approx(plan(asked).to_json(), rel=1e-12), name
    asked, shown = plan(task), {name: cells[0] for name, cells in said(ran.output).items()}
    assert asked.workers > 1 and shown["workers"] == shown["workers that hold it"] == str(asked.workers)
    assert shown["of it network, %"] == f"{100 * asked.network / asked.step:.0f}" != "0"
    assert shown["of it disk, %"] == f"{100 * asked.disk / asked.step:.0f}" not in ("0", shown["of it network, %"])
    numbers = {"index, GB": asked.index / 1e9, "rows in memory, GB": asked.rows_in_memory / 1e9, "cost of them": asked.cost}
    numbers |= {"counts of other ids, GB": asked.counts / 1e9, "rows on disk, GB": asked.on_disk / 1e9}
    numbers |= {"sent per step, MB": asked.sent / 1e6, "step, ms": 1e3 * asked.step, "a day's examples, h": asked.epoch / 3_600}
    assert {name: float(shown[name].replace(",", "")) for name in numbers} == pytest.approx(numbers, rel=5e-3)


def test_a_refused_plan_stands_beside_those_that_can_be(tmp_path):
    path = tmp_path / "plan.json"
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(cli.app, ["workers", "plan", "--ids", "1e13", "--json", str(path)])
    assert ran.exit_code == 0, ran.output
    found = json.loads(path.read_text())
    assert "at most 4,096 workers" in found["as asked"]["refused"] and found["all three"]["workers"] < 4_096
    assert said(ran.output)["workers"][0] == "refused" and "as asked, refused: The tables fill" in ran.output
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(cli.app, ["workers", "plan", "--ids", "1e16"])
    assert ran.exit_code == 1 and "at most 4,096 workers" in ran.output and "Plans" not in ran.output


def test_small_plans_have_digits_and_no_time_has_no_shares():
    options = ["--ids", "10", "--step-ms", "0", "--example-us", "0", "--day-examples", "100"]
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(cli.app, ["workers", "plan", *options])
    assert ran.exit_code == 0, ran.output
    shown = said(ran.output)
    assert shown["rows in memory, GB"][0] == "1.32e-06" and shown["step, ms"][0] == shown["of it disk, %"][0] == "0"
    assert shown["of it disk, %"][2] == "100"


def test_a_command_without_options_is_the_plan_of_a_task_without_any(tmp_path):
    path = tmp_path / "plan.json"
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(cli.app, ["workers", "plan", "--json", str(path)])
    assert ran.exit_code == 0, ran.output
    assert json.loads(path.read_text())["as asked"] == pytest.approx(plan(Task()).to_json(), rel=1e-12)


def test_the_command_refuses_in_a_sentence():
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(cli.app, ["workers", "plan", "--admission", "2"])
    assert ran.exit_code == 1 and "admission must be 0 to 1; received 2.0" in ran.output
