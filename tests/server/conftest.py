import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))  # wire_requests, served
from serve_command import Server
from served import first, probabilities

from ctrlab import models, serving
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs


@pytest.fixture(scope="session")
def published(small_batches, tmp_path_factory):
    """A folder of two models; of one of them the tensors of a request and the answer."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("dlrm", "din"):
        schema, batches = small_batches(DATA_SETS[name])
        model, batch = models.build(name, schema, optimizations="all"), first(batches[0][0], 20)
        serving.export_model(model, folder / "ctr" if name == "din" else folder / name, rows=[batch])
    tensors = inputs.to_tensors(batch, inputs.inputs_of(model, "text"), model)
    return folder, tensors, probabilities(model, batch)


@pytest.fixture(scope="session")
def server_log(tmp_path_factory):
    """The log of the shared server."""
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="session")
def server(published, server_log):
    """A server of the two models for all tests that only send requests. It must end with success. Its counts include all of
    these tests.
    """
    with server_log.open("w") as log:
        server = Server(published[0], errors=log)
    yield server
    server.process.terminate()
    try:
        assert server.process.wait(60) == 0, server_log.read_text()
    finally:
        server.process.kill()


@pytest.fixture
def begin(published):
    """`begin(*options)` -> a server that is killed if a test leaves it."""
    begun = []

    def of(*options):
        begun.append(Server(published[0], *options))
        return begun[-1]

    yield of
    for server in begun:
        server.process.kill()
        server.process.wait(60)
