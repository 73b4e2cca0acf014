"""The bench of waits at a tiny size: all phases are there, beside a control, and what was watched is what it says. No speed."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ctrlab.profiling.machine import machine
from ctrlab.profiling.waiting import Pair, Waits, Watch
from studies.waiting import bench as waiting_bench
from studies.waiting import command
from studies.waiting.bench import ASKED, DIM, SIZES, bench_lookups, bench_reads

SIZE = replace(SIZES["tiny"], rounds=1)


def require_sane(found):
    for phase in found.phases:
        (pair,) = found.pairs(phase)
        for watch in (pair.quiet, pair.busy):
            assert len(watch.calls) and len(watch.control), phase
            assert 0 < watch.percentile(50) <= watch.percentile(99) <= watch.longest, phase
        assert pair.busy.work > 0 and pair.quiet.work >= SIZE.seconds
        assert pair.ratio == found.ratio(phase).median > 0
    assert found.own > 0


def test_lookups_are_watched_in_every_phase_and_read_the_memory(tmp_path):
    found = bench_lookups(SIZE, tmp_path)
    assert found.phases == ["opens", "updates", "compacts", "evicts"]
    require_sane(found)
    assert found.facts["hot_keys_read_below"] == 0 and found.facts["bytes_left"] > 100 * SIZE.rows
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(300)
def test_reads_of_a_store_are_watched_while_it_compacts(tmp_path):
    found = bench_reads(SIZE, tmp_path)
    assert found.phases == ["compacting"] and "12,000 of them erased" in found.title
    require_sane(found)
    assert found.facts["files_compacted"] > 0
    assert found.facts["records_live"] == 8_000 and found.facts["records_left"] <= 1.01 * 8_000, "compaction leaves no garbage"
    assert not list(tmp_path.iterdir())


def test_an_eviction_takes_the_percent_that_it_is_told_and_leaves_what_is_looked_up(tmp_path):
    table = waiting_bench._Table(tmp_path, SIZE)
    table.fill("Filling")
    assert table.variable.rows() == SIZE.rows and table.variable.stats().rows_below >= SIZE.rows - SIZE.memory_rows
    table.evict_percent(30)
    assert table.variable.rows() == pytest.approx(0.7 * SIZE.rows, rel=0.02)
    state = table.variable.state()
    assert np.isin(np.arange(waiting_bench.HOT), state.keys).all()
    np.testing.assert_array_equal(state.values, np.repeat(state.keys, DIM).reshape(-1, DIM))
    table.fill("Filling again")
    assert table.variable.rows() == SIZE.rows


def test_the_command_says_and_writes_what_was_found(tmp_path, monkeypatch, capsys):
    def watch(longest, control):
        return Watch(np.array([[0.0, 0.001], [0.1, longest]]), np.array([[0.0, control]]), 0.5)

    rounds = [{"evicts": Pair(watch(0.001, 0.0), watch(longest, 0.001))} for longest in (0.004, 0.002)]
    found = [Waits("Lookups", rounds, 1e-4, ASKED, {"rows": 1_000, "files_compacted": compacted}) for compacted in (7, 0)]
    monkeypatch.setattr(waiting_bench, "bench_waiting", lambda profile: found)
    command.command(tmp_path / "waiting.json", None, tmp_path / "waiting.html")
    told = capsys.readouterr().out
    assert re.search(r"evicts .* 1.5 .* 2.9\d .* 4 .* 1 .* 2.9\d \[.* 3 ", told), "medians of two rounds, and what was worst"
    assert "evicts 2, 50 ms" in told and "rows 1,000" in told and told.count("No file was compacted") == 1
    assert json.loads((tmp_path / "waiting.json").read_text())[0]["beyond_control"] == {"evicts": pytest.approx(0.003)}
    page = (tmp_path / "waiting.html").read_text()
    assert "Lookups" in page and machine().device in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page[:2_000] + page[-20_000:])
