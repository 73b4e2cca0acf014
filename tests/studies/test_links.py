"""Slow links, what travels over them, and what a delay costs."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ctrlab.lessons.topics.more_workers import traffic
from ctrlab.lessons.topics.more_workers.fitting import FRAME, PADDING
from ctrlab.lessons.topics.more_workers.measured import Found
from ctrlab.lessons.topics.more_workers.one_process import Job
from local_workers import run_workers
from relay import Relay

from ctrlab import build, data
from ctrlab.distributed.launch import free_ports
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.errors import CtrlabError
from studies.workers.bench import bench
from studies.workers.links import hosts
from studies.workers.report import tables

BYTES = 1_000_000
SENDER = f"""
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000)) as connection:
    began = time.perf_counter()
    connection.sendall(bytes({BYTES}))
    connection.recv(1)
    print(time.perf_counter() - began)
"""
RECEIVER = f"""
import socket
with socket.create_server(("", 7000)) as server:
    print(flush=True)
    connection, _ = server.accept()
    left = {BYTES}
    while left:
        left -= len(connection.recv(1 << 16))
    connection.sendall(b"!")
"""


@pytest.fixture
def two():
    """Two hosts."""
    with contextlib.ExitStack() as last:
        try:
            yield last.enter_context(hosts(2))
        except CtrlabError as problem:
            pytest.skip(str(problem))


def test_a_link_has_its_rate_and_counts_what_is_sent(two):
    one, other = two
    seconds = {}
    for megabits in (None, 20):
        for host in two:
            host.set_rate(megabits)
        before = one.sent(), other.sent()
        command = [*other.enter, sys.executable, "-c", RECEIVER]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
            receiver.stdout.readline()
            done = subprocess.run([*one.enter, sys.executable, "-c", SENDER, other.address], capture_output=True, text=True)
        seconds[megabits] = float(done.stdout)
        assert BYTES < (one.sent() - before[0]).bytes < 1.1 * BYTES
        assert (other.sent() - before[1]).bytes < 0.1 * BYTES
    assert seconds[20] > 0.9 * 8 * BYTES / 20e6 > seconds[None]


def test_a_network_ends_with_its_block(two):
    def others():
        return subprocess.run(["ip", "link"], capture_output=True, text=True).stdout.count("wire")

    with hosts(1) as (third,):
        assert os.path.exists(f"/proc/{third.pid}")
    assert not os.path.exists(f"/proc/{third.pid}")
    assert others() == 0  # their devices are in networks of their own


@pytest.mark.parametrize("wrong", [0, -5, 1e-9, 1e30, float("nan"), float("inf"), "100", True])
def test_a_rate_that_no_link_can_have_is_refused_and_the_old_one_stays(two, wrong):
    def shown():
        command = ["tc", "qdisc", "show", "dev", "wire"]
        return subprocess.run([*two[0].enter, *command], capture_output=True, text=True, check=True).stdout

    two[0].set_rate(20)
    before = shown()
    assert "rate 20Mbit" in before
    with pytest.raises(CtrlabError, match=r"A link's megabits per second must be a finite number .*; received"):
        two[0].set_rate(wrong)
    assert shown() == before


@pytest.mark.parametrize("wrong", [-1, 0, 255, 1.5, float("nan"), "2"])
def test_a_number_of_hosts_that_can_not_be_is_refused(wrong):
    with pytest.raises(CtrlabError, match=r"The number of hosts must be .* at least 1 and at most 254; received"), hosts(wrong):
        pass


def test_without_the_programs_one_sentence_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CtrlabError, match="namespaces, by root with the programs ip, tc, unshare and nsenter"), hosts(1):
        pass


@pytest.mark.parametrize("embedding", ["hashed", "variable"])
def test_the_least_traffic_is_that_of_the_distinct_keys_of_others(embedding, tmp_path):
    workers, rows = 3, 31
    whole = data.schema("food_delivery")
    data.write(data.generate("food_delivery", rows * workers, 1), whole, tmp_path / "rows.parquet", progress=False)

    tables = {c.table for c in whole.id_columns if c.encoding == "hash"}  # "variable" alone leaves small tables hashed

    def make():
        return build("dlrm", whole.with_buckets(50), embedding=dict.fromkeys(tables, embedding))

    model = make()
    read = data.read(tmp_path / "rows.parquet", model.input_schema, batch_size=rows)
    parts = [features for features, _ in read]
    found = traffic.least(make, parts)

    distinct = key_bytes = row_bytes = 0
    for index, features in enumerate(parts):
        of_table = {}
        for column, ids in model.encoder.ids(features, model.encoder.id_columns).items():
            of_table.setdefault(model.schema[column].table, []).append(getattr(ids, "flat_values", ids).numpy())
        for table, ids in of_table.items():
            each = np.unique(np.concatenate(ids))
            grows = embedding == "variable" and table in tables
            owners = hash_keys(each) % np.uint64(workers) if grows else each % workers
            others = int(np.sum(owners != index))
            distinct += len(each)
            key_bytes += others * (16 if grows else 4)
            row_bytes += others * 4 * model.sizes.dim
    assert found.distinct == pytest.approx(distinct / workers)
    assert found.keys == pytest.approx(key_bytes / workers)
    assert found.rows == found.row_gradients == pytest.approx(row_bytes / workers)
    dense = sum(v.shape.num_elements() for v in model.trainable_variables if "embedding" not in v.path)
    assert found.dense == pytest.approx(2 * 2 / 3 * 4 * dense)


def test_a_step_sends_little_more_than_it_must(two):
    """Padding, moments and totals take the rest. On a slow link the step lasts at least as long as the link needs."""
    job = Job("dlrm", ["none"], "hashed", "tiny", 1)
    found = bench(job, [256], [2], [100], lambda name: range(3))
    Found.from_json(json.loads(json.dumps(found.to_json())))
    free, slow = found.measured
    assert 1 < free.bytes / free.least.bytes < PADDING  # in large packets; ids and rows are not all that is sent
    assert slow.bytes < 1.04 * FRAME * free.bytes  # in small ones, with their answers
    assert min(slow.seconds) > 0.95 * 8 * slow.least.bytes / 100e6  # the burst goes at once
    assert slow.hidden(free).low < slow.most_hidden(found.part(slow)) + 0.2  # of three rounds
    said = tables([found.to_json() | {"machine": "one"}])
    assert "| dlrm | 256 | 2 | 100 Mbit/s |" in said


def test_an_exchange_costs_a_round_trip_and_a_ring_a_delay_for_each_hop():
    """TensorFlow's collectives ask for each part that they need. A ring has 2 (W - 1) hops, and asks for all of them at once."""
    delay, count = 0.02, 3
    own = tuple(f"127.0.0.1:{port}" for port in free_ports(count))
    with contextlib.ExitStack() as last:
        relayed = [last.enter_context(Relay(address, delay)).address for address in own]
        seen = [tuple(own[j] if j == i else relayed[j] for j in range(count)) for i in range(count)]
        seconds = json.loads(run_workers(count, Path(__file__).with_name("delay_worker.py"), addresses=seen)[0])
    assert seconds["exchanged"] > 0.95 * 2 * delay
    assert seconds["summed"] > 0.95 * 2 * (count - 1) * delay
    assert seconds["gathered"] > 0.95 * 2 * delay
