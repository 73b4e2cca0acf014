"""The comparison with other libraries, on peers that are none."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.profiling.work import Ceilings
from studies.peers import bench
from studies.peers.command import report
from studies.peers.environments import Peer

CEILINGS = Ceilings(sgemm=1e11, bf16=1e11, stream=1e10, stream_one_thread=1e10, random_rows=1e7, sigmoids=1e9, device="fake")
FAKE = str(Path(__file__).with_name("fake_peer.py"))


@pytest.fixture
def run(monkeypatch):
    """run({"peer": "how", ...}, names) is the comparison of our fake with such peers; a peer that is None can't be had."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    def run(hows, names=("lookup",), ours="quick"):
        def command(peer):
            how = ours if peer.name == "ctrlab" else hows[peer.name]
            if how is None:
                raise CtrlabError("It is not on this machine.")
            return [sys.executable, FAKE, peer.name, *how.split()]

        peers = {name: Peer(name, "", ("lookup",)) for name in hows}
        return bench.bench_peers(names, "tiny", CEILINGS, peers, command)

    return run


def text_of(rows):
    console = Console(width=200, file=io.StringIO())
    console.print(report(rows).parts[0].table())
    return console.file.getvalue()


def test_a_slower_peer_has_a_ratio_its_outputs_and_its_note(run):
    (row,) = run({"other": "slow"})
    assert (row.case, row.peer, row.note, row.difference) == ("lookup", "other 1.0", "fake", 0.0)
    assert row.ratio.median > 1.5
    assert row.standing == "inconclusive"  # three pairs have no 95 % interval
    assert row.comparison["ctrlab"].percent_of_bound == pytest.approx(1e-3 / row.comparison["ctrlab"].median)
    assert json.loads(json.dumps(row.to_json()))["comparison"]["baseline"] == "other"


@pytest.mark.parametrize("ratio, standing", [(2.0, "ahead"), (0.5, "behind"), (None, "level")])
def test_the_standing_is_the_intervals(ratio, standing):
    noise = np.linspace(0.9, 1.1, 11)
    samples = {"peer": noise * (ratio or 1.0), "ctrlab": np.ones(11) if ratio is None else noise}
    comparison = bench.Comparison.of_samples(samples, baseline="peer", profile="lesson")
    assert bench.AgainstPeer("case", "shape", "peer", comparison).standing == standing


def test_a_peer_that_can_not_be_had_is_listed_and_the_others_run(run):
    rows = run({"gone": None, "lacking": "lacking", "here": "quick"})
    assert [row.peer for row in rows] == ["gone", "lacking", "here 1.0"]
    assert [row.standing for row in rows] == ["missing", "missing", "inconclusive"]
    assert [row.note for row in rows] == ["It is not on this machine.", "It needs what is not here.", "fake"]
    assert [row.to_json()["comparison"] is None for row in rows] == [True, True, False]


def test_a_peer_that_ends_in_the_middle_is_listed_and_the_others_run(run):
    rows = run({"dying": "dying", "here": "slow"})
    assert "ended before its work was done (exit code 3)" in rows[0].note
    assert rows[0].standing == "missing"
    assert rows[1].ratio.median > 1.5


def test_our_own_side_must_run(run):
    with pytest.raises(CtrlabError, match="It needs what is not here"):
        run({"here": "quick"}, ours="lacking")


@pytest.mark.parametrize("how", ["other", "broken"])
def test_other_outputs_are_no_comparison(run, how):
    (row,) = run({"liar": how})
    assert row.comparison is None and not row.difference <= 0.01
    assert "from ours, where 1e-05 is allowed" in row.note


def test_outputs_that_are_not_comparable_have_no_difference(run):
    (row,) = run({"unlike": "unlike"})
    assert row.difference is None
    assert "other numbers" in text_of([row])


def test_a_case_that_no_peer_has_gives_no_row(run):
    assert run({"here": "quick"}, names=("lookup_alone",)) == []


def test_an_unknown_case_says_the_nearest(run):
    with pytest.raises(UnknownName, match="Did you mean 'dlrm'"):
        run({}, names=("dlmr",))


def test_the_table_has_a_line_for_each_row(run):
    text = text_of(run({"gone": None, "here": "slow"}))
    (gone,) = [line for line in text.splitlines() if "gone" in line]
    (here,) = [line for line in text.splitlines() if "here 1.0" in line]
    assert "missing" in gone
    assert "inconclusive" in here and "0e+00" in here
