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


def test_the_threads_of_a_core_are_side_by_side_in_their_node(two_sockets):
    assert nodes(range(16), two_sockets) == [[0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]]


@pytest.mark.parametrize(
    "members,right",
    [
        (1, [[*range(16)]]),
        (2, [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]),
        (4, [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]),
        (8, [[core, core + 8] for core in range(8)]),
        (3, [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]),
    ],
)
def test_members_have_whole_cores_of_one_node(two_sockets, members, right):
    assert shared_out(members, nodes(range(16), two_sockets)) == right


def test_only_the_process_s_own_cpus_are_shared_out(two_sockets):
    assert shared_out(2, nodes([0, 1, 5, 13], two_sockets)) == [[0, 1], [5, 13]]
    assert shared_out(2, nodes([5, 6], two_sockets)) == [[5], [6]]


def test_a_system_that_names_no_nodes_has_one(tmp_path):
    assert nodes([0, 1, 2], tmp_path) == [[0, 1, 2]]


def test_nodes_without_cpus_have_no_member(tmp_path):
    """Memory alone, as of a card: Linux writes an empty list."""
    assert nodes(range(2), machine(tmp_path, ["0-1", ""], [])) == [[0, 1]]


def test_this_machine_s_cpus_are_all_there_once():
    assert sorted(cpu for node in nodes() for cpu in node) == sorted(os.sched_getaffinity(0))


def test_more_members_than_cpus_are_one_sentence():
    with pytest.raises(CtrlabError, match="a CPU of its own; received 3 members for 2 CPUs"):
        shared_out(3, [[0, 1]])


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), data=st.data())
def test_each_cpu_is_one_member_s_and_none_is_across_nodes_without_need(sizes, data):
    ends = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    here = [list(range(first, last)) for first, last in itertools.pairwise(ends)]
    members = data.draw(st.integers(1, ends[-1]))
    found = shared_out(members, here)
    assert len(found) == members and all(found)
    assert sorted(cpu for member in found for cpu in member) == list(range(ends[-1]))
    touched = [{n for n, node in enumerate(here) if set(node) & set(member)} for member in found]
    if members >= len(sizes):
        assert all(len(each) == 1 for each in touched)
    else:
        assert all(set(member) == {cpu for n in each for cpu in here[n]} for member, each in zip(found, touched))


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
