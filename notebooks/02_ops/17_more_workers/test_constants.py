"""Constants that were measured are those of the record; the others are what their sources say, spelled out."""

import json
from pathlib import Path

import pytest
from ctrlab.lessons.topics.more_workers import constants, published
from ctrlab.lessons.topics.more_workers.fitting import line_through

from ctrlab.distributed.simulator.model import Distinct

RECORD = json.loads((Path(__file__).parents[3] / "data" / "measurements" / "simulator.json").read_text())


def test_measured_constants_are_those_of_the_record():
    assert pytest.approx(RECORD["tensor"], abs=0.5e-6) == constants.TENSOR
    assert RECORD["launches"]["compiled"] / RECORD["launches"]["ops"] == constants.COMPILED


def test_the_recorded_steps_lie_on_a_line():
    seconds = dict(zip(RECORD["examples"], RECORD["seconds"]))
    fixed, per_example = line_through(seconds)
    for examples, times in seconds.items():
        assert fixed + per_example * examples == pytest.approx(sorted(times)[len(times) // 2], rel=0.05)


def test_recorded_ids_are_fewer_per_example_the_more_examples_there_are():
    counted = Distinct.from_json(RECORD["distinct"])
    per_example = [counted(n) / n for n in counted.examples]
    assert per_example == sorted(per_example, reverse=True)
    assert counted(1e9) == counted.vocabulary == 1_300_012  # rows of DLRM's tables on the contest's data


def test_rates_are_those_of_one_gpu():
    assert constants.WIDE_DEEP == 5_213_185  # 976 + 13 inputs, five layers of 1,024 with biases, one logit
    assert 0.5 < constants.V100 / 15.7e12 < 1  # of what its data sheet promises at most
    assert 0.2 < constants.A100 / 156e12 < 1


def test_links_and_hosts_are_what_their_sources_say():
    """Bits per second of data sheets, or bytes per second of NCCL's tables, spelled out beside their constants."""
    gigabytes = {"PCIE": 12, "NVLINK_V100": 6 * 20, "NVLINK_A100": 235, "NETWORK_100G": 12, "NETWORK_25G": 25 / 8}
    for name, rate in gigabytes.items():
        assert 1e-9 / getattr(constants, name).per_byte == pytest.approx(rate), name
    assert 0.9 < 8e-9 / constants.NETWORK_100G.per_byte / 100 <= 1  # of 100 Gbit/s
    latencies = {"PCIE": 5.7e-6, "NVLINK_V100": 3.4e-6, "NVLINK_A100": 3.4e-6, "NETWORK_100G": 9.6e-6, "NETWORK_25G": 9.6e-6}
    assert {name: getattr(constants, name).latency for name in latencies} == latencies
    assert (constants.DGX1_CORES, constants.DGX_A100_CORES) == (2 * 20, 2 * 64)  # two Xeon E5-2698 v4; two EPYC 7742
    cores = [cluster.host.cores for _, cluster, _, _ in published.nvidia().values()]
    assert cores == 2 * [constants.DGX1_CORES, constants.DGX_A100_CORES]
