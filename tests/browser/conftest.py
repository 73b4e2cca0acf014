"""A JupyterLab on loopback with a token, on a working folder of its own, and a page of Chromium in front of it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctrlab.lessons import lab

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("server", "serving")]  # serve_command, wire_requests
TOKEN = "for-this-test-only"
CHROMIUM = os.environ.get("CTRLAB_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")  # an event loop runs in this thread until it ends
def chromium():
    if not CHROMIUM:
        pytest.skip("no Chromium was found: install it, or set CTRLAB_CHROMIUM to its path, to run the browser test")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def jupyter(chromium, tmp_path_factory):
    """A running server: `work`, its folder, and `url(path)`, the address of a notebook in it."""
    work = tmp_path_factory.mktemp("work")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {
        "JUPYTER_CONFIG_DIR": work / ".config",
        "JUPYTER_DATA_DIR": work / ".data",
        "JUPYTERLAB_SETTINGS_DIR": work / ".settings",
    }
    environment = lab.server_environment(work, TOKEN) | {"CTRLAB_PROFILE": "tiny", "CTRLAB_WORK": str(work)}
    with open(work / "server.log", "wb") as log:
        server = subprocess.Popen(
            lab.server_command(work, port, browser=False),
            env=environment | {name: str(path) for name, path in own.items()},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, work / "server.log")
        yield SimpleNamespace(work=work, url=lambda path: f"http://127.0.0.1:{port}/lab/tree/{path}?token={TOKEN}&reset")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def _wait_for(url: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    yield page
    page.close()


@pytest.fixture
def keep(page):
    """Keeps a screenshot under a name; one more, "last", is taken when the test ends, however it ends."""

    def screenshot(name: str) -> None:
        page.screenshot(path=Path(__file__).with_name("screenshots") / f"{name}.png")

    yield screenshot
    screenshot("last")
