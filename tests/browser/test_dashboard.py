"""The live page of a server: it moves with the answers, keeps its token to itself and asks nobody else."""

import threading
from importlib import resources

import pytest
from serve_command import TOKEN, Server
from served import first
from wire_requests import by_rows

from ctrlab import models, serving
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs


@pytest.fixture
def loaded(small_batches, tmp_path):
    """(A server of two versions of a model, and one that asks it without end)."""
    schema, batches = small_batches(DATA_SETS["din"])
    model, batch = models.build("din", schema), first(batches[0][0], 5)
    for _ in range(2):
        serving.export_model(model, tmp_path / "ctr", rows=[batch])
    body = by_rows(inputs.to_tensors(batch, inputs.inputs_of(model, "text"), model))
    server, ends = Server(tmp_path / "ctr", "--keep", "2"), threading.Event()

    def ask():
        while not ends.is_set():
            assert server.ask("POST", "/v1/models/ctr:predict", body)[0] == 200

    thread = threading.Thread(target=ask)
    thread.start()
    yield server
    ends.set()
    thread.join()
    assert server.stop()[0] == 0


def test_the_page_of_a_server_is_alive(loaded, page, keep):
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    here = f"http://127.0.0.1:{loaded.port}"
    page.goto(f"{here}/dashboard")
    page.get_by_label("Token").fill("another")
    page.get_by_role("button").click()
    page.get_by_text("This is not the server's token.").wait_for()
    assert said and all("401" in line for line in said)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button").click()

    page.locator("#rate path[d*=L]").wait_for()
    first = page.locator("#rate path").get_attribute("d")
    page.wait_for_function("before => document.querySelector('#rate path').getAttribute('d') !== before", arg=first)
    rows = [row.inner_text().split("\t") for row in page.locator("#models tr").all()]
    assert [row[:3] for row in rows] == [["ctr", "1", "0"], ["ctr", "2", "0"]]
    assert int(rows[0][4]) == 0 and int(rows[1][4]) > 0, "only the newest is asked"
    assert rows[0][5:] == ["none", "none"] and "s" in rows[1][5]
    keep("dashboard")
    heights = page.locator("#latency path").get_attribute("d")
    assert heights.endswith(" 10.0"), "all answers took less than the last latency"
    assert len(said) == 1 and all(url.startswith((here, "data:")) for url in asked)


def test_a_token_behind_the_address_stays_in_the_browser(loaded, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://127.0.0.1:{loaded.port}/dashboard#{TOKEN}")
    page.locator("#rate path[d*=L]").wait_for()
    assert TOKEN not in page.url and all(TOKEN not in url.split("#")[0] for url in asked)


def test_a_rate_goes_on_when_series_of_unloaded_versions_end(page):
    page.set_content(resources.files("ctrlab.server").joinpath("dashboard.html").read_text())
    found = page.evaluate(
        """() => {
          const look = (at, counts) => ({at, samples: Object.entries(counts).map(([version, value]) =>
            ({name: "ctrlab_request_seconds_count", labels: {model: "ctr", version}, value}))});
          return rate(look(0, {1: 9000, 2: 10}), look(2, {2: 30, 3: 6}), "ctrlab_request_seconds_count", {model: "ctr"});
        }"""
    )
    assert found == (30 - 10 + 6) / 2
