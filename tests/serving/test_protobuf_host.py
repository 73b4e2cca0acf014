"""The processor in programs that have what TensorFlow's libraries have, too: protobuf and gRPC, a malloc, a sanitizer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served import TOLERANCE, first, probabilities
from wire_requests import answer_of

from ctrlab.serving import warm_up
from ctrlab.serving.processor import LIBRARY

NATIVE = Path(__file__).parents[2] / "native"
HOSTS = Path(__file__).parent / "hosts"


def words_of_grpc():
    found = None
    if shutil.which("pkg-config") and shutil.which("c++"):
        found = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], capture_output=True, text=True)
    if found is None or found.returncode:
        pytest.skip("no C++ compiler, or no headers of protobuf and gRPC: apt-get install libgrpc++-dev libprotobuf-dev")
    return found.stdout.split()


def build(made, compiler, source, *words):
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler `{compiler}`")
    here = [LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run([compiler, "-O1", "-I", NATIVE, source, "-o", made, *words, *here], check=True)
    return made


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return build(tmp_path_factory.mktemp("host") / "host", "c++", HOSTS / "protobuf_host.cc", "-std=c++17", *words_of_grpc())


def answers(host, din, folder, **environment):
    out, model, features, right = din
    (folder / "request").write_bytes(warm_up.predict_request("ctr", right))
    ran = subprocess.run([host, out, folder / "request"], capture_output=True, env=os.environ | environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = probabilities(model, first(features, 3))
    np.testing.assert_allclose(answer_of(ran.stdout)[0], expected, rtol=0, atol=TOLERANCE)


def test_a_host_with_its_own_protobuf_and_grpc_answers(host, din, tmp_path):
    answers(host, din, tmp_path)


def test_a_host_with_its_own_malloc_too_answers(host, din, tmp_path):
    heap = build(tmp_path / "heap.so", "cc", HOSTS / "own_heap.c", "-shared", "-fPIC", "-fno-builtin")
    answers(host, din, tmp_path, LD_PRELOAD=str(heap))


AFTER = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
handle, problem = ctypes.c_uint64(), ctypes.create_string_buffer(500)
if library.ctrlab_processor_initialize(sys.argv[2].encode(), None, ctypes.byref(handle), problem, ctypes.c_size_t(500)):
    sys.exit(problem.value.decode())
assert ctypes.CDLL(sys.argv[3]).works() == 1
"""


def test_a_library_with_its_own_protobuf_works_that_is_opened_after_the_processor(din, tmp_path):
    words = ["-std=c++17", "-shared", "-fPIC", *words_of_grpc()]
    late = build(tmp_path / "late.so", "c++", HOSTS / "protobuf_host.cc", *words)
    ran = subprocess.run([sys.executable, "-c", AFTER, LIBRARY, din[0], late], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


SANITIZED = r"""
#include <stdio.h>
#include "processor/processor_c.h"
int main(int count, char** words) {
  char problem[500];
  ctrlab_processor processor;
  int code = count != 2 || ctrlab_processor_initialize(words[1], NULL, &processor, problem, sizeof problem);
  return code ? puts(problem), code : (int)ctrlab_processor_release(processor, problem, sizeof problem);
}
"""


def test_a_host_under_a_sanitizer_loads_it(din, tmp_path):
    """Sanitizers refuse RTLD_DEEPBIND."""
    (tmp_path / "host.c").write_text(SANITIZED)
    host = build(tmp_path / "host", "cc", tmp_path / "host.c", "-fsanitize=address")
    # TensorFlow leaves memory to the end of the process.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run([host, din[0]], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_processor_that_cannot_be_loaded_says_why(din, tmp_path):
    """And the program that is linked to it starts."""
    (tmp_path / "host.c").write_text(SANITIZED)
    host = build(tmp_path / "host", "cc", tmp_path / "host.c")
    shutil.copy(LIBRARY, tmp_path)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    ran = subprocess.run([host, din[0]], capture_output=True, text=True, env=environment)
    assert (ran.returncode, ran.stdout.count("\n")) == (1, 1)
    assert "loads the processor" in ran.stdout and f"{tmp_path}/_ctrlab_processor.so: cannot open" in ran.stdout
