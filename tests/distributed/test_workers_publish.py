"""Several workers publish what one process would: versions and updates with exactly the rows of the saves of the same steps.

Publications that a disk refuses on one of them, tables that no longer know what changed, and a worker that is killed meanwhile.
"""

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from local_workers import run_workers, start_workers
from publish_worker import MODEL, embedding
from published_rows import Rows

from ctrlab import data
from ctrlab.distributed.manifest import merge_workers
from ctrlab.models import build
from ctrlab.serving import verify
from ctrlab.serving.bundled import WEIGHTS, Bundled
from ctrlab.serving.inputs import inputs_of, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing_folder import LOCKED, PublisherLock
from ctrlab.serving.versions import LAST
from ctrlab.training import restore
from ctrlab.training.restoring import tables_of

pytestmark = pytest.mark.timeout(900)  # several processes on the same cores


@pytest.fixture(scope="module")
def whole():
    """The model in one process, and what it is as an export."""
    model = build(MODEL, optimizations="all", embedding=embedding())
    return model, Bundled(model, inputs_of(model, "text"), memory_rows=50)


def files_of(folder: Path, version: int, updates: int) -> list[Path]:
    beside = folder / "ctr" / f"{version}.updates"
    return [folder / "ctr" / str(version) / "assets" / WEIGHTS, *(beside / str(n) for n in range(1, updates + 1))]


def holds_the_save(whole, folder: Path, step: int, version: int, updates: int, merged: Path) -> Rows:
    """Requires that a version with these updates holds the rows of the workers' save of a step, which the model then has."""
    model, bundled = whole
    merge_workers(folder / str(step), merged)
    assert restore(merged, model).step == step
    found = Rows(bundled, *files_of(folder, version, updates))
    assert found.step == step
    for table, rows in zip(bundled.tables, found.fixed):
        np.testing.assert_array_equal(rows, table.numpy(), table.path)
    for table, rows in zip(bundled.growing, found.growing):
        state = tables_of(model)[table.name].state()
        assert rows.keys() == set(state.keys.tolist()), table.name
        values = np.reshape([rows[key] for key in state.keys.tolist()], state.values.shape)
        np.testing.assert_array_equal(values, state.values, table.name)
    assert found.dense == [array.tobytes() for array in bundled.trace.dense_values(bundled.trace.weight_values())]
    return found


def answers_as(folder: Path, model, version: int, updates: int) -> None:
    """Requires that a server answers with a version as the model does. The server has compared the workers' answers with its
    own.
    """
    columns = inputs_of(model, "text")
    with Processor(folder / "ctr", poll_seconds=0) as processor:
        for features, _ in data.prepare("food_delivery", profile="tiny").read_test(100).take(2):
            tensors = to_tensors(features, columns, model).items()
            plain = {name: np.vectorize(_text, otypes=[object])(tensor.numpy()).tolist() for name, tensor in tensors}
            reply = processor.process(json.dumps({"inputs": plain}).encode(), "json")
            assert (reply.version, reply.update) == (version, updates)
            expected = model.probabilities(features).numpy()
            np.testing.assert_allclose(json.loads(reply.data)["outputs"], expected, rtol=0, atol=1e-6)


def _text(value):
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


ACTIONS = [
    *[["train", 2], ["save"], ["publish"]],
    *[["train", 1], ["save"], ["tidy"], ["publish"]],
    *[["train", 1], ["fill", 1, 1_000], ["publish"], ["free", 1]],
    *[["train", 1], ["fill", 0, 1_000], ["publish"], ["free", 0], ["save"], ["publish"]],
    *[["train", 1], ["forget", 1], ["fill", 1, 100_000], ["publish"], ["free", 1], ["save"], ["publish"]],
    *[["by_the_clock", 0.05, 4], ["long_before_the_next", 16], ["save"]],
]
REFUSED = "The model could not be published to {}: Input/output error; what was there before is as it was; free some space or "


def test_two_workers_publish_what_their_saves_hold(whole, tmp_path):
    told = [json.loads(out) for out in run_workers(2, "publish_worker.py", tmp_path, json.dumps(ACTIONS))]
    said = [each if isinstance(each, str) else tuple(each) for each in told[0]]
    refused = REFUSED.format(tmp_path / "ctr") + "name another folder."
    of_other = f"Worker 1: {refused}"
    *before, looks, (last, versions, updates) = said
    assert before == [
        *[(2, 1, 0), (3, 1, 1), (4, 1, 1), of_other, (5, 1, 1), refused, (5, 1, 2), (6, 1, 2), of_other, (6, 2, 2)],
    ]
    assert [each for each in told[1] if isinstance(each, str)] == [of_other, refused, of_other, looks]
    assert versions == 2 and updates >= 5
    assert int(looks.removesuffix(" looks")) <= 4  # after 1, 3, 7 and 15 steps
    for k, (step, version, update) in enumerate([(2, 1, 0), (3, 1, 1), (5, 1, 2), (6, 2, 0), (last, 2, updates - 2)]):
        found = holds_the_save(whole, tmp_path, step, version, update, tmp_path / f"merged-{k}")
    assert min(len(rows) for rows in found.growing) > 100 and found.removed > 100
    answers_as(tmp_path, whole[0], 2, updates - 2)
    verify(tmp_path / "ctr" / "2")
    assert {each.name for each in (tmp_path / "ctr").iterdir()} == {"1", "1.updates", "2", "2.updates", LOCKED, LAST}


def test_three_workers_and_one_of_them_is_killed_while_it_publishes(whole, tmp_path):
    folder = tmp_path / "ctr"
    actions = [["train", 2], ["save"], ["publish"], ["train", 1], ["save"], ["publish"], ["train", 1], ["die", 2], ["publish"]]
    started = start_workers(3, "publish_worker.py", tmp_path, json.dumps(actions))
    assert started[2].wait(400) == -signal.SIGKILL, started[2].communicate()[1]
    time.sleep(2)  # for what the others might do with the half of a part
    for worker in started:
        worker.kill()
        worker.communicate()
    for step, update in ((2, 0), (3, 1)):
        holds_the_save(whole, tmp_path, step, 1, update, tmp_path / f"merged-{update}")
    answers_as(tmp_path, whole[0], 1, 1)
    PublisherLock(folder).release()  # the next training that publishes deletes the half
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert left == {LOCKED, LAST, "1.updates", "1.updates/1", *files_in_version(folder)}


def files_in_version(folder: Path) -> set[str]:
    manifest = verify(folder / "1")
    names = {f"1/{name}" for name in manifest.files} | {"1/ctrlab.json"}
    return names | {parent.as_posix() for name in names for parent in Path(name).parents if parent != Path(".")}
