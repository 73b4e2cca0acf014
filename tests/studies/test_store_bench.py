"""The bench of the store: that its program compiles, runs, and that what it says is put together rightly."""

import json
import re

import pytest

from studies import pages
from studies.store import bench as store_bench
from studies.store.bench import StoreBench, bench_store


def round_of(ours, its, quiet, busy):
    def phase(rate, seconds):
        return {"rows_per_second": rate, "reads": [[0, seconds]] * 10, "updates": []}

    def store(rate):
        return {"mixed": phase(rate, quiet), "compacting": phase(rate, busy), "read": phase(rate, quiet)}

    return {"ctrlab": store(ours) | {"write_amplification": 1.5}, "peer": store(its), "disk": {"iops": 4 * ours, "iops_alone": 1}}


def test_ratios_are_taken_round_by_round():
    bench = StoreBench(64, 100, 10, [round_of(20, 10, 1, 2), round_of(30, 10, 1, 4), round_of(80, 20, 2, 6)])
    assert bench.stores == ["ctrlab", "peer"]
    assert bench.ratio("peer", "mixed").median == 3  # 2, 3, 4
    assert bench.stall("ctrlab").median == 3  # 2, 4, 3
    assert bench.percent_of_bound("ctrlab").median == 25
    assert bench.rows_per_second("peer", "read").median == 10
    assert len(bench.reads("peer", "read")) == 30 and bench.write_amplification() == 1.5
    assert json.loads(json.dumps(bench.to_json()))["rounds"][0]["disk"]["iops"] == 80


def test_the_page_of_latencies_needs_nothing_else():
    page = pages.of_stores([StoreBench(size, 100, 10, [round_of(20, 10, 1, 2)]) for size in (64, 256)])
    assert "random reads of 64 bytes" in page and "random reads of 256 bytes" in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page[:2_000] + page[-20_000:])


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_program_measures_every_store_that_is_there(tmp_path):
    bench = bench_store(64, "tiny", folder=tmp_path)
    assert set(bench.stores) | set(bench.missing) == {"ctrlab", *store_bench.PEERS}
    for store in bench.stores:
        for phase in store_bench.PHASES:
            assert bench.rows_per_second(store, phase).low > 0
    assert 1 <= bench.write_amplification() <= 3
    assert not list(tmp_path.iterdir())
