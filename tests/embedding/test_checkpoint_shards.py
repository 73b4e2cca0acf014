"""Chains merged offline and saves cut into shards are the state that was saved; what doesn't belong together is refused."""

import shutil
from unittest import mock

import pytest
from histories import as_rows, histories, live, tables
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_with_tables import content, new_run, train_to
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.embedding.formats.merging import SCRATCH
from ctrlab.embedding.formats.partition import join, shard
from ctrlab.embedding.formats.resharding import merge_chain, merge_delta_files, open_shards, read_any, reshard
from ctrlab.embedding.formats.saves import Save, files_in
from ctrlab.embedding.formats.table_arrays import apply_delta, from_arrays, merge_deltas, to_arrays
from ctrlab.embedding.formats.tensor_file import read_tensors, write_tensors
from ctrlab.errors import BadData, CtrlabError
from ctrlab.training import Checkpoints, restore


@pytest.fixture(scope="module")
def run_of_five(tmp_path_factory):
    """A full save of step 1 with deltas of 2 to 5, and what the run was at the end."""
    folder, run = tmp_path_factory.mktemp("run"), new_run()
    with Checkpoints(folder, *run, every=1, full_every=10, keep=9) as checkpoints:
        train_to(run, 5, checkpoints)
    return folder, content(run)


@pytest.fixture
def five(run_of_five, tmp_path):
    folder, expected = run_of_five
    shutil.copytree(folder, tmp_path / "run")
    return tmp_path / "run", expected


def restored(folder):
    run = new_run()
    return restore(folder, *run), content(run)


def test_a_chain_as_one_full_save(five, tmp_path):
    folder, expected = five
    merge_chain(folder, tmp_path / "out")
    found, there = restored(tmp_path / "out")
    assert there == expected and (found.step, found.position, found.save.number) == (5, 5, 0)


def test_a_run_that_goes_on_keeps_its_chain(tmp_path):
    folder, run = tmp_path / "run", new_run()
    with Checkpoints(folder, *run, every=1, full_every=10) as checkpoints:
        train_to(run, 1, checkpoints)
        with pytest.raises(CtrlabError, match="into another folder"):
            merge_chain(folder, tmp_path / "other" / ".." / "run")
        train_to(run, 2, checkpoints)
    assert restored(folder)[1] == content(run) and restored(folder)[0].step == 2


@pytest.mark.parametrize("pieces", [[(2, 5)], [(2, 3), (4, 5)], [(3, 4)]])
def test_merged_deltas_take_the_place_of_those_they_are_made_of(five, tmp_path, pieces):
    folder, expected = five
    files = files_in(folder)
    for first, last in pieces:
        merged = merge_delta_files([files[step] for step in range(first, last + 1)], tmp_path)
        for step in range(first, last + 1):
            files[step].unlink()
        shutil.move(merged, files[last])
    found, there = restored(folder)
    assert there == expected and found.step == 5 and not found.passed_over
    assert len(files_in(folder)) == 5 - sum(last - first for first, last in pieces)


@settings(max_examples=15, deadline=None)
@given(table=tables, history=histories, place=st.data())
def test_what_is_merged_is_what_the_definition_says(table, history, place, tmp_path_factory):
    """Merges in parts of three rows, from files that may each have a key as row, candidate or tombstone."""
    folder = tmp_path_factory.mktemp("merged")
    table.changed()
    save, states, paths = Save.full(1, 1, {}), [table.state()], []
    for step, _ in enumerate(live(table, [*history, "save"]), 2):
        states.append(table.changed())
        paths.append(written(folder / "run", save, states[-2]))
        save = save.delta(step, step)
    paths.append(written(folder / "run", save, states[-1]))
    first = place.draw(st.integers(1, len(states) - 1))
    with mock.patch("ctrlab.embedding.formats.table_arrays.PART_BYTES", 300):
        whole = merge_chain(folder / "run", folder / "whole")
        delta = merge_delta_files(paths[first:], folder / "delta")
    merged = merge_deltas([narrow(state) for state in states[first:]])
    assert as_rows(from_arrays(read_tensors(delta)[0], "")["item"]) == as_rows(merged)
    end = apply_delta(narrow(states[0]), merge_deltas([narrow(state) for state in states[1:]]))
    assert as_rows(from_arrays(read_tensors(whole)[0], "")["item"]) == as_rows(end)
    assert not list(folder.glob("*/.*"))


def written(folder, save, state):
    folder.mkdir(exist_ok=True)
    write_tensors(folder / save.name, to_arrays("item", state, bool(save.number)), save.to_metadata())
    return folder / save.name


def narrow(state):
    """A state as a file gives it, with float32 numbers."""
    return from_arrays(to_arrays("item", state, delta=True), "")["item"]


def test_deltas_that_do_not_follow_each_other(five, tmp_path):
    files = files_in(five[0])
    for steps, sentence in {(2, 4): "it is missing", (3, 2): "it is missing|but comes after", (1, 2): "is a full save"}.items():
        with pytest.raises(BadData, match=sentence):
            merge_delta_files([files[step] for step in steps], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadData, match=r"nowhere can't be read: No such file"):
        merge_chain(tmp_path / "nowhere", tmp_path)


def test_any_number_of_shards_and_back(five, tmp_path):
    folder, expected = five
    whole = merge_chain(folder, tmp_path / "whole")
    tables = read_any([whole])[1]
    paths = [whole]
    for count in (3, 2, 5, 1):
        paths = reshard(paths, count, tmp_path / str(count))
        assert len(paths) == count
        for j, path in enumerate(paths):
            if count > 1:
                state = read_shards_of(path)["item"]
                assert as_rows(state) == as_rows(shard(tables["item"], j, count))
                assert len(state.keys) < len(tables["item"].keys)
    assert restored(tmp_path / "1")[1] == expected
    assert as_rows(join([read_shards_of(path)["shop"] for path in sorted((tmp_path / "3").iterdir())])) == as_rows(tables["shop"])


def read_shards_of(path):
    return from_arrays(read_tensors(path)[0], str(path))


def test_shards_that_are_not_one_save(five, tmp_path):
    folder, _ = five
    whole = merge_chain(folder, tmp_path / "whole")
    a, b, c = reshard([whole], 3, tmp_path / "three")
    other = reshard([merge_chain(folder, tmp_path / "whole2")], 3, tmp_path / "other")
    two = reshard([whole], 2, tmp_path / "two")
    odd = tmp_path / "odd"
    arrays, metadata = read_tensors(a)
    write_tensors(odd, arrays, {**metadata, "shard": "x"})
    for paths, sentence in [
        ([], "at least one shard; received none"),
        ([a, c], "in 3 shards, numbered from 0; shard 1 is missing"),
        ([a, b, b, c], "in 3 shards, numbered from 0; shard 1 comes twice"),
        ([a, b, other[2]], "shard-00002-of-00003.safetensors is of save .* in 3 shards, and .* in 3"),
        ([a, two[1]], "is of save .* in 2 shards, and .* in 3"),
        ([files_in(folder)[2]], "is a delta: merge its chain first"),
        ([odd, b, c], "does not say which of up to 99,999 shards it is: x of 3"),
    ]:
        with pytest.raises(BadData, match=sentence):
            open_shards(paths)
    for count in (0, 100_000, 10**12, 10**30):
        with pytest.raises(CtrlabError, match=f"into 1 to 99,999 shards; received {count:,}"):
            reshard([whole], count, tmp_path / "none")


@pytest.mark.parametrize(
    "metadata", [{"shards": "x"}, {"shards": "0"}, {"shards": "100000"}, {"shard": "1"}, {"shard": "-1"}, {"shards": "9" * 5000}]
)
def test_a_file_that_is_none_of_its_shards(five, tmp_path, metadata):
    path = files_in(five[0])[1]
    found, notes = read_tensors(path)
    write_tensors(path, found, notes | metadata)
    with pytest.raises(BadData, match=f"{path} .*which of up to 99,999 shards"):
        reshard([path], 2, tmp_path / "two")


def test_one_merge_at_a_time_into_a_folder(five, tmp_path):
    out = tmp_path / "out"
    (out / SCRATCH / "rows").mkdir(parents=True)
    of_a_killed_one, of_others = out / ".step-000000005.safetensors.1.part", out / ".step-000000006.safetensors.1.part"
    of_a_killed_one.touch(), of_others.touch()
    first = FolderLock(out)
    with pytest.raises(CtrlabError, match=f"{out} is in use"):
        merge_chain(five[0], out)
    assert (out / SCRATCH / "rows").exists() and of_a_killed_one.exists()
    first.release()
    merge_chain(five[0], out)
    assert set(out.iterdir()) == {out / "step-000000005.safetensors", of_others}
    FolderLock(out).release()


def test_shards_go_into_a_folder_that_nobody_holds(five, tmp_path):
    whole, out = merge_chain(five[0], tmp_path / "whole"), tmp_path / "out"
    out.mkdir()
    of_a_killed_one, of_others = out / ".step-000000005.shard-00001-of-00004.safetensors.1.part", out / ".step-000000006.1.part"
    of_a_killed_one.touch(), of_others.touch()
    with FolderLock(out), pytest.raises(CtrlabError, match=f"{out} is in use"):
        reshard([whole], 2, out)
    assert set(out.iterdir()) == {of_a_killed_one, of_others}
    assert set(reshard([whole], 2, out)) | {of_others} == set(out.iterdir())
    FolderLock(out).release()


def test_a_key_of_another_shard_is_refused(five, tmp_path):
    paths = reshard([merge_chain(five[0], tmp_path / "whole")], 2, tmp_path / "two")
    found, notes = read_tensors(paths[0])
    other, _ = read_tensors(paths[1])
    keys = found["embedding/item/keys"].copy()
    keys[0] = other["embedding/item/keys"][0]
    write_tensors(paths[0], found | {"embedding/item/keys": keys}, notes)
    with pytest.raises(BadData, match=f"is shard 0 of 2; key {keys[0]} of its table item is of another"):
        reshard(paths, 3, tmp_path / "three")
    assert not list((tmp_path / "three").iterdir())


def test_from_the_command_line(five, tmp_path):
    def call(*arguments):
        found = CliRunner().invoke(cli.app, ["checkpoints", *map(str, arguments)])
        return found.exit_code, found.output

    folder, expected = five
    code, said = call("merge", folder, tmp_path / "whole")
    whole = tmp_path / "whole" / "step-000000005.safetensors"
    assert code == 0 and said.startswith(str(whole)) and restored(tmp_path / "whole")[1] == expected
    deltas = [files_in(folder)[step] for step in (2, 3, 4, 5)]
    assert call("merge-deltas", *deltas, "--out", tmp_path / "delta")[0] == 0
    for path in deltas:
        path.unlink()
    shutil.move(tmp_path / "delta" / deltas[-1].name, deltas[-1])
    assert restored(folder)[1] == expected
    code, told = call("merge-deltas", deltas[-1], whole, "--out", tmp_path / "none")
    assert code == 1 and len(told.splitlines()) == 1 and not (tmp_path / "none").exists()
    code, said = call("reshard", whole, "--shards", 2, "--out", tmp_path / "two")
    assert code == 0 and len(said.splitlines()) == 2
    code, said = call(
        "reshard", tmp_path / "two" / "step-000000005.shard-00001-of-00002.safetensors", "--shards", 1, "--out", "x"
    )
    assert code == 1 and "shard 0 is missing" in said and said.count(".") < 6
