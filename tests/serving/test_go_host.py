"""The processor in a server in Go: what eight goroutines get is the model's answer."""

import os
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from served import TOLERANCE, first, probabilities
from wire_requests import answer_of

from ctrlab.serving import warm_up
from ctrlab.serving.processor import LIBRARY

NATIVE = Path(__file__).parents[2] / "native"
SOURCE = Path(__file__).parent / "hosts" / "host.go"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    if shutil.which("go") is None or shutil.which("cc") is None:
        pytest.skip("no Go, or no C compiler for its cgo: apt-get install golang-go gcc")
    made = tmp_path_factory.mktemp("host") / "host"
    digest = zlib.crc32(b"".join(header.read_bytes() for header in sorted(NATIVE.rglob("*.h"))))
    environment = os.environ | {
        "CGO_ENABLED": "1",
        # Go keeps what it once compiled and doesn't look into headers that lie elsewhere, so a flag says which these are.
        "CGO_CFLAGS": f"-O1 -I{NATIVE} -DHEADERS={digest}",
        "CGO_LDFLAGS": f"{LIBRARY} -Wl,-rpath,{LIBRARY.parent}",
    }
    subprocess.run(["go", "build", "-o", made, SOURCE], check=True, env=environment)
    return made


def test_goroutines_get_the_models_answer(host, din, tmp_path):
    out, model, features, right = din
    (tmp_path / "request").write_bytes(warm_up.predict_request("ctr", right))
    ran = subprocess.run([host, out, tmp_path / "request"], capture_output=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = probabilities(model, first(features, 3))
    np.testing.assert_allclose(answer_of(ran.stdout)[0], expected, rtol=0, atol=TOLERANCE)


def test_what_is_refused_arrives_as_a_sentence(host, din, tmp_path):
    (tmp_path / "request").write_bytes(b"odd")
    for folder, sentence in ((din[0], "PredictRequest"), (tmp_path, "write one by ctrlab export")):
        ran = subprocess.run([host, folder, tmp_path / "request"], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout.count("\n")) == (1, 1) and sentence in ran.stdout
