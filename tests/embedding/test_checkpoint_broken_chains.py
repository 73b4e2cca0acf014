"""A chain of saves that is not whole is noticed, and which part; so is one of another model, before anything changes."""

import itertools
import re

import numpy as np
import pytest
from runs_with_tables import TABLES, content, new_run, restored, saved, train_to

from ctrlab.embedding import BloomFilter, Embedding, Options
from ctrlab.embedding.formats.saves import POINTER, Save, check_chain, files_in
from ctrlab.embedding.formats.tensor_file import read_metadata, read_tensors, write_tensors
from ctrlab.embedding.table.cut import Stage
from ctrlab.errors import BadData, CtrlabError
from ctrlab.training import Checkpoints, restore
from ctrlab.training.restoring import tables_of


@pytest.fixture
def nine(tmp_path):
    """Full saves of the steps 1, 5 and 9 with deltas between, and what the run was at each."""
    return tmp_path, saved(tmp_path, 9)


def damage(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_a_damaged_delta_ends_its_chain(nine):
    folder, contents = nine
    damage(files_in(folder)[9])
    damage(files_in(folder)[7])
    found, there = restored(folder)
    assert found.step == 6 and there == contents[6]
    of_9, of_8, of_7 = found.passed_over
    assert "step-000000009.safetensors is damaged" in of_9 and "step-000000007.delta.safetensors is damaged" in of_7
    assert "step-000000008.delta.safetensors can't be used without the saves before it" in of_8
    run = new_run()
    with Checkpoints(folder, *run, every=1, full_every=4, resume=True) as checkpoints:
        train_to(run, 9, checkpoints)
    assert restored(folder)[1] == contents[9] and not restored(folder)[0].passed_over


def cut_short(path):
    path.write_bytes(path.read_bytes()[:20])


@pytest.mark.parametrize("broken", [damage, cut_short, lambda path: path.unlink()], ids=["damaged", "cut", "missing"])
def test_what_is_lost_is_told(nine, broken):
    folder, contents = nine
    files = files_in(folder)
    broken(files[9]), broken(files[7])
    found, there = restored(folder)
    assert found.step == 6 and there == contents[6] and found.passed_over[0].startswith(str(files[9]))
    assert found.lost == "Went back from step 9 to step 6, and from batch 9 to batch 6: what was trained between is lost."


def test_what_is_lost_where_nothing_says_on_how_many_batches(nine):
    folder, _ = nine
    (folder / POINTER).unlink()
    cut_short(files_in(folder)[9])
    assert restored(folder)[0].lost == "Went back from step 9 to step 8: what was trained between is lost."


def test_a_missing_delta_is_noticed(nine):
    folder, contents = nine
    files = files_in(folder)
    missing = Save.from_metadata(read_metadata(files[7]), files[7])
    files[7].unlink()
    files[9].unlink()
    found, there = restored(folder)
    assert found.step == 6 and there == contents[6]
    assert found.passed_over == (
        f"{files[9]} is missing, although latest.json names it.",
        f"{files[8]} can't be used: {files[8].name} is delta 3 of full save {missing.base} and follows save {missing.id}, "
        "which is missing.",
    )


def test_a_missing_full_save(nine):
    folder, contents = nine
    for step in (9, 5):
        files_in(folder)[step].unlink()
    found, there = restored(folder)
    assert found.step == 4 and there == contents[4] and len(found.passed_over) == 4


def test_a_delta_of_another_run_is_noticed(nine, tmp_path_factory):
    folder, contents = nine
    other = tmp_path_factory.mktemp("other")
    saved(other, 9)
    files = files_in(folder)
    files[9].unlink()
    files[7].write_bytes(files_in(other)[7].read_bytes())
    found, there = restored(folder)
    assert found.step == 6 and there == contents[6]
    assert all("which is missing" in sentence for sentence in found.passed_over[1:]) and len(found.passed_over) == 3


def test_names_of_files_do_not_matter(nine):
    folder, contents = nine
    files = files_in(folder)
    files[9].unlink()
    (a, b) = (files[path].read_bytes() for path in (6, 7))
    files[6].write_bytes(b), files[7].write_bytes(a)
    assert restored(folder)[1] == contents[8]


def chain():
    full = Save.full(1, 1, {})
    first = full.delta(2, 2)
    second = first.delta(3, 3)
    return [("full", full), ("d1", first), ("d2", second), ("d3", second.delta(4, 4))]


def test_a_chain_is_checked():
    full, d1, d2, d3 = chain()
    check_chain([full, d1, d2, d3])
    check_chain([full])
    foreign = chain()
    twin = ("twin", d1[1].delta(3, 3))
    missing = "it is missing: before comes"
    wrong = [
        ([full, d2, d3], f"d2 is delta 2 and follows save {d1[1].id}, but {missing} full, save {full[1].id}"),
        ([full, d1, d3], f"d3 is delta 3 and follows save {d2[1].id}, but {missing} d1, save {d1[1].id}"),
        ([full, d1, twin, d3], f"d3 is delta 3 and follows save {d2[1].id}, but {missing} twin, save {twin[1].id}"),
        ([full, d2, d1, d3], "d2 is delta 2 and follows d1, but comes after full"),
        ([full, d1, d1], "d1 is delta 1 and follows full, but comes after d1"),
        ([d1, d2], "A chain begins with a full save; d1 is delta 1 of full save " + full[1].id),
        ([full, d1, foreign[2]], f"d2 is foreign: its full save is {foreign[0][1].id}, and that of d1 is {full[1].id}"),
        ([full, foreign[0]], "full is foreign"),
    ]
    for saves, sentence in wrong:
        with pytest.raises(BadData, match=sentence):
            check_chain(saves)


def rewritten(path, arrays=None, metadata=None):
    found, notes = read_tensors(path)
    arrays = {name: a.copy() for name, a in found.items()} | (arrays or {})
    write_tensors(path, {n: a for n, a in arrays.items() if a is not None}, {**notes, **(metadata or {})})


@pytest.mark.parametrize(
    "metadata, sentence",
    [
        ({"format": "ctrlab checkpoint 3"}, "is of format 3, and this ctrlab knows none after 2: update it"),
        ({"format": "ctrlab checkpoint 1"}, "is no checkpoint of this version"),
        ({"format": "else"}, "is no checkpoint of this version"),
        ({"format": "ctrlab checkpoint " + "9" * 5000}, "is no checkpoint of this version"),
        ({"format": 3}, "must be texts"),
        ({"id": ["1"]}, "must be texts"),
        ({"previous": {}}, "must be texts"),
        ({"step": float("inf")}, "must be texts"),
        ({"step": "1" * 5000}, "does not say what it is"),
        ({"step": str(2**63)}, "its step is 9223372036854775808"),
        ({"step": "-5"}, "its step is -5"),
        ({"position": "-5"}, "its position is -5"),
        ({"number": "1" + "0" * 40}, "its number is 1000"),
        ({"run": "3"}, "its run is 3"),
        ({"run": "[]"}, r"its run is \[\]"),
        ({"run": "[" * 100_000}, "does not say what it is"),
        ({"number": "x"}, "does not say what it is"),
        ({"number": "1"}, "is delta 1 and follows step-000000002.delta.safetensors, but comes after"),
        ({"base": "0"}, "is foreign"),
    ],
)
def test_foreign_metadata(tmp_path, metadata, sentence):
    contents = saved(tmp_path, 3)
    rewritten(files_in(tmp_path)[3], metadata=metadata)
    found, there = restored(tmp_path)
    assert found.step == 2 and there == contents[2]
    assert len(found.passed_over) == 1 and re.search(sentence, found.passed_over[0])


def with_array(name, change):
    """A change of one array of table `shop` in a file."""
    return lambda arrays: {f"embedding/shop/{name}": change(arrays[f"embedding/shop/{name}"].copy())}


def first(value):
    def change(array):
        array[0] = value
        return array

    return change


def counted_and_with_a_row(arrays):
    return {
        "embedding/shop/candidate_keys": first(arrays["embedding/shop/keys"][0])(arrays["embedding/shop/candidate_keys"].copy())
    }


CONTRADICTIONS = {
    "a key twice": (with_array("keys", lambda keys: first(keys[-1])(keys)), "has each key once"),
    "a row and a count": (counted_and_with_a_row, "has each key once"),
    "a count of 0": (
        with_array("candidate_counts", first(0)),
        r"has candidate_counts in \[1, 2147483648\); key -?\d+ has 0\.",
    ),
    "a step below 0": (with_array("steps", first(-1)), r"has steps in \[0, 2147483648\)"),
    "a large frequency": (with_array("frequencies", first(2**32)), r"has frequencies in \[0, 4294967296\)"),
    "a filter": (with_array("filter", lambda _: np.zeros(9, np.uint8)), "filter bytes are 0 in one and 9 in the other"),
    "other slots": (lambda _: {"embedding/shop/slot_m": None}, "the slots are"),
    "no shop": (lambda arrays: {n: None for n in arrays if n.startswith("embedding/shop/")}, r"has the tables \['item'\]"),
}


@pytest.mark.parametrize("step", [3, 5])
@pytest.mark.parametrize("change, sentence", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_save_that_contradicts_itself_is_passed_over(tmp_path, change, sentence, step):
    """Its checksum is right: it was written so. Of step 5 it is a full save, with one delta on it."""
    contents = saved(tmp_path, 6 if step == 5 else 3)
    path = files_in(tmp_path)[step]
    rewritten(path, change(read_tensors(path)[0]))
    if step == 5 and sentence.startswith(("filter", "the slots", "has the tables")):
        files_in(tmp_path)[6].unlink()  # a full save of another model, and so no damage
        with pytest.raises(CtrlabError, match="is of another model"):
            restored(tmp_path)
        return
    found, there = restored(tmp_path)
    assert found.step == step - 1 and there == contents[step - 1]
    assert all(re.search(sentence, said) for said in found.passed_over) and len(found.passed_over) == (1 if step == 3 else 2)


def test_the_order_of_slots_in_a_file_does_not_matter(tmp_path):
    contents = saved(tmp_path, 2)
    for path in files_in(tmp_path).values():
        found, notes = read_tensors(path)
        write_tensors(path, {name: found[name] for name in sorted(found, reverse=True)}, notes)
    assert restored(tmp_path)[1] == contents[2]


@pytest.mark.parametrize("call", range(6))
def test_a_table_without_room_is_no_damaged_save_and_nothing_changes(tmp_path, call, monkeypatch):
    """A full disk, say, at any part of any table."""
    saved(tmp_path, 3)
    run, calls, load = new_run(), itertools.count(), Stage.load_state
    train_to(run, 2)
    before = content(run)

    def no_room(stage, *arguments, **options):
        if next(calls) == call:
            raise CtrlabError("There is no room.")
        load(stage, *arguments, **options)

    monkeypatch.setattr(Stage, "load_state", no_room)
    with pytest.raises(CtrlabError, match="There is no room"):
        restore(tmp_path, *run)
    assert content(run) == before


@pytest.mark.parametrize("array", [None, np.zeros(3, np.float32)])
def test_a_foreign_table_in_a_delta(tmp_path, array):
    contents = saved(tmp_path, 3)
    rewritten(files_in(tmp_path)[3], {"embedding/shop/steps": array})
    found, there = restored(tmp_path)
    assert found.step == 2 and there == contents[2] and "embedding/shop/steps" in found.passed_over[0]


@pytest.mark.parametrize(
    "other, sentence",
    [
        ({"tables": {"item": Options()}}, "'shop' is only in the checkpoint"),
        ({"tables": TABLES | {"user": Options()}}, "'user' is only in the model"),
        ({"dim": 3}, "table item has rows of dimension 2 in the checkpoint and of 3 in the model"),
        (
            {"tables": TABLES | {"shop": Options(admission=BloomFilter(2, expected_keys=100))}},
            r"table shop has a filter of 0 bytes in the checkpoint and of \d+ in the model",
        ),
    ],
)
def test_of_another_model_and_nothing_changes(nine, other, sentence):
    run = new_run(**other)
    train_to(run, 2)
    before = content(run)
    with pytest.raises(CtrlabError, match="is of another model: .*" + sentence):
        restore(nine[0], *run)
    assert content(run) == before


def test_of_another_optimizer_and_nothing_changes(nine):
    run = new_run(kind="sgd")
    before = content(run)
    with pytest.raises(CtrlabError, match="is of another model"):
        restore(nine[0], *run)
    assert content(run) == before


def test_without_an_optimizer_the_slots_stay_out(nine):
    model, _ = new_run()
    restore(nine[0], model)
    state = model.tables()["item"].state()
    assert len(state.keys) and not any(slot.any() for slot in state.slots.values())


def test_two_tables_of_one_name():
    model = new_run()[0]
    model.other = Embedding(2, columns={"item": "item"}, name="other")
    with pytest.raises(CtrlabError, match="Names of embedding variables must differ"):
        tables_of(model)
