"""Every learner's notebook runs up to its first prediction or stub, and stops exactly there. One kernel serves them all."""

import os

import pytest
from jupyter_client.manager import start_new_kernel

from ctrlab.lessons import build, notebook, places

LEARNERS = [mine for _, mine in build.pairs(places.notebooks())]
CELL_SECONDS = 120


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A client of a fresh kernel at profile `tiny`, with a working folder of its own."""
    work = tmp_path_factory.mktemp("work")
    manager, client = start_new_kernel(env=os.environ | {"CTRLAB_PROFILE": "tiny", "CTRLAB_WORK": str(work)}, cwd=str(work))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client, code: str) -> dict:
    return client.execute_interactive(code, timeout=CELL_SECONDS, output_hook=lambda message: None)["content"]


@pytest.mark.parametrize("path", LEARNERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_stops_at_each_prediction_and_at_the_first_stub(kernel, path):
    run(kernel, "%reset -f")
    solved = {cell.id: cell.source for cell in notebook.read(path.parent / "solutions" / path.name).cells}
    for cell in notebook.read(path)["cells"]:
        if cell["cell_type"] == "code":
            reply = run(kernel, cell.source)
            if "lab.predict(" in cell.source:
                assert reply["status"] == "error" and reply["ename"] == "Unanswered", cell.source
                reply = run(kernel, solved[cell.id])
            if reply["status"] != "ok":
                break
    assert reply["status"] == "error", "it ran to its end: there is no stub"
    where = f"cell {cell['id']}: {reply['ename']}: {reply['evalue']}"
    assert {"exercise-1", "check-1"} & set(notebook.tags(cell)), where
    assert reply["ename"] == "Unanswered" and reply["evalue"].startswith("Exercise 1"), where
