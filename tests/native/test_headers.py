"""The headers for programs in C: any compiler since 1989 reads them."""

import shutil
import subprocess

import pytest
from compiled import NATIVE


@pytest.mark.parametrize("header", ["table/engine_c.h", "processor/processor_c.h"])
def test_a_header_is_one_of_c89(header, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler `cc`")
    source = tmp_path / "c89.c"
    source.write_text(f'#include "{header}"\nint main(void) {{ return 0; }}\n')
    strict = ["-std=c89", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only"]
    made = subprocess.run(["cc", *strict, "-I", NATIVE, source], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
