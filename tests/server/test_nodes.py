"""CPUs shared out among members, on machines that a folder describes as Linux does."""

import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlab.cli import serve
from ctrlab.errors import CtrlabError
from ctrlab.server import models
from ctrlab.server.nodes import cpus_of, nodes, shared_out


def machine(folder, lists, siblings):
    for number, cpus in enumerate(lists):
        (folder / "node" / f"node{number}").mkdir(parents=True)
        (folder / "node" / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    for cpus in siblings:
        for cpu in cpus_of(cpus):
            (folder / "cpu" / f"cpu{cpu}" / "topology").mkdir(parents=True)
            (folder / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(f"{cpus}\n")
    return folder


@pytest.fixture
def two_sockets(tmp_path):
    """Two nodes of four cores with two threads each; the second threads are numbered after all first ones."""
    return machine(tmp_path, ["0-3,8-11", "4-7,12-15"], [f"{core},{core + 8}" for core in range(8)])


def test_a_node_has_its_cores_and_a_core_its_threads(two_sockets):
    assert nodes(range(16), two_sockets) == [[[n, n + 8] for n in range(4)], [[n, n + 8] for n in range(4, 8)]]


@pytest.mark.parametrize(
    "members,right",
    [
        (1, [[*range(16)]]),
        (2, [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]),
        (4, [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]),
        (8, [[core, core + 8] for core in range(8)]),
        (3, [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]),
        (5, [[0, 8], [1, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]),
        (9, [[0], [1, 8], [9], [2, 10], [3, 11], [4, 12], [5, 13], [6, 14], [7, 15]]),
    ],
)
def test_members_have_whole_cores_of_one_node(two_sockets, members, right):
    assert shared_out(members, nodes(range(16), two_sockets)) == right


def test_only_the_process_s_own_cpus_are_shared_out(two_sockets):
    assert shared_out(2, nodes([0, 1, 5, 13], two_sockets)) == [[0, 1], [5, 13]]
    assert shared_out(2, nodes([5, 6], two_sockets)) == [[5], [6]]


def test_a_system_that_names_no_nodes_has_one(tmp_path):
    assert nodes([0, 1, 2], tmp_path) == [[[0], [1], [2]]]


def test_nodes_without_cpus_have_no_member(tmp_path):
    """Memory alone, as of a card: Linux writes an empty list."""
    assert nodes(range(2), machine(tmp_path, ["0-1", ""], [])) == [[[0], [1]]]


def test_this_machine_s_cpus_are_all_there_once():
    assert sorted(cpu for node in nodes() for core in node for cpu in core) == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("members", [3, 0, -1])
def test_other_numbers_of_members_are_one_sentence(members):
    with pytest.raises(CtrlabError, match=f"a CPU of its own; received {members} members for 2 CPUs"):
        shared_out(members, [[[0], [1]]])


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), threads=st.sampled_from([1, 2, 4]), data=st.data())
def test_each_cpu_is_one_member_s_and_nothing_is_across_without_need(sizes, threads, data):
    """Neither nodes nor cores."""
    free = itertools.count()
    here = [[[next(free) for _ in range(threads)] for _ in range(cores)] for cores in sizes]
    cpus = [set(itertools.chain(*node)) for node in here]
    members = data.draw(st.integers(1, threads * sum(sizes)))
    found = shared_out(members, here)
    assert len(found) == members and all(found)
    assert sorted(cpu for member in found for cpu in member) == list(range(threads * sum(sizes)))
    touched = [{n for n, node in enumerate(cpus) if node & set(member)} for member in found]
    if members < len(sizes):
        assert all(set(member) == {cpu for n in each for cpu in cpus[n]} for member, each in zip(found, touched))
        return
    assert all(len(each) == 1 for each in touched)
    for n, node in enumerate(here):
        inside = [set(member) for member, (at,) in zip(found, touched) if at == n]
        if len(inside) <= len(node):
            assert all(sum(bool(member & set(core)) for member in inside) == 1 for core in node)


@pytest.mark.parametrize("text", ["", "x", "3-1", "1,", "-1", "0-", "1;2", "99999"])
def test_odd_lists_are_none(text):
    assert cpus_of(text) is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two members need two CPUs")
def test_ctrlab_serve_gives_them_to_its_members(tmp_path, monkeypatch):
    made = {}

    def models_of(folder, **options):
        made.update(options)
        raise CtrlabError("No server is needed here.")

    monkeypatch.setattr(models, "Models", models_of)
    with pytest.raises(CtrlabError, match="No server"):
        serve.command(tmp_path, members=2, cpus="auto")
    cpus = [",".join(map(str, each)) for each in shared_out(2, nodes())]
    assert made["group"] == {"name": "all", "members": 2, "policy": "round_robin", "cpus": cpus}
