"""The processor in programs that are not Python's, and in one that has no TensorFlow loaded."""

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served import TOLERANCE, first, probabilities
from wire_requests import by_rows

from ctrlab.serving.processor import LIBRARY, VERSION

NATIVE = Path(__file__).parents[2] / "native"

HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processor/processor_c.h"

/* host FOLDER FILE: answers the JSON request in FILE, twice in one call, and prints the answer. */
int main(int count, char** words) {
  char problem[500];
  ctrlab_processor processor;
  if (count != 3 || ctrlab_processor_version() != CTRLAB_PROCESSOR_VERSION) return 2;
  if (ctrlab_processor_initialize(words[1], NULL, &processor, problem, sizeof problem) != CTRLAB_PROCESSOR_OK) {
    puts(problem);
    return 1;
  }
  FILE* file = fopen(words[2], "rb");
  char* body = malloc(1 << 20);
  size_t size = fread(body, 1, 1 << 20, file);
  ctrlab_processor_request requests[2];
  ctrlab_processor_response responses[2];
  for (int i = 0; i < 2; ++i) {
    memset(&requests[i], 0, sizeof requests[i]);
    memset(&responses[i], 0, sizeof responses[i]);
    requests[i].struct_size = sizeof requests[i];
    responses[i].struct_size = sizeof responses[i];
    requests[i].format = CTRLAB_PROCESSOR_JSON;
    requests[i].data = body;
    requests[i].size = size;
    requests[i].header = -1;
  }
  if (ctrlab_processor_batch_process(processor, requests, 2, responses, problem, sizeof problem)) return puts(problem), 1;
  if (responses[0].size != responses[1].size || memcmp(responses[0].data, responses[1].data, responses[0].size)) return 3;
  fwrite(responses[0].data, 1, responses[0].size, stdout);
  ctrlab_processor_free(&responses[0]);
  ctrlab_processor_free(&responses[1]);
  ctrlab_processor_free(&responses[1]);
  requests[1].size = 3;
  int code = ctrlab_processor_batch_process(processor, requests, 2, responses, problem, sizeof problem);
  if (code != CTRLAB_PROCESSOR_INVALID) return 4;
  if (strncmp(problem, "Request 1: ", 11) || responses[0].owner || responses[1].owner) return 5;
  requests[0].struct_size = 1;
  code = ctrlab_processor_process(processor, requests, responses, problem, 8);
  if (code != CTRLAB_PROCESSOR_INVALID || strlen(problem) != 7) return 6;
  if (ctrlab_processor_process(processor, NULL, responses, NULL, 0) != CTRLAB_PROCESSOR_INVALID) return 7;
  if (ctrlab_processor_release(processor, problem, sizeof problem)) return 8;
  if (ctrlab_processor_release(processor, problem, sizeof problem) != CTRLAB_PROCESSOR_INVALID) return 9;
  free(body);
  return 0;
}
"""


def test_a_host_in_c_gets_the_same_answers(din, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler `cc`")
    out, model, features, right = din
    (tmp_path / "host.c").write_text(HOST)
    (tmp_path / "request").write_bytes(by_rows(right))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", NATIVE, tmp_path / "host.c", "-o", tmp_path / "host"]
    subprocess.run(["cc", *flags, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
    ran = subprocess.run([tmp_path / "host", out, tmp_path / "request"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = probabilities(model, first(features, 3))
    np.testing.assert_allclose(json.loads(ran.stdout)["predictions"], expected, rtol=0, atol=TOLERANCE)
    ran = subprocess.run([tmp_path / "host", tmp_path, tmp_path / "request"], capture_output=True, text=True)
    assert (ran.returncode, "write one by ctrlab export" in ran.stdout) == (1, True)


ALONE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])  # RTLD_LOCAL, and nobody has loaded TensorFlow
handle, problem = ctypes.c_uint64(), ctypes.create_string_buffer(500)
code = library.ctrlab_processor_initialize(sys.argv[2].encode(), None, ctypes.byref(handle), problem, ctypes.c_size_t(500))
assert "tensorflow" not in sys.modules
sys.exit(code and problem.value.decode())
"""


def test_a_process_without_tensorflow_opens_it(din):
    ran = subprocess.run([sys.executable, "-c", ALONE, LIBRARY, din[0]], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ctypes.CDLL(str(LIBRARY)).ctrlab_processor_version() == VERSION
