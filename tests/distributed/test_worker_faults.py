"""A failure of another worker, such as a full disk or too little memory, is shown at once as one sentence on the first
worker's terminal.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "embedding"))
import full_disk  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # several processes on the same cores
LAUNCH = """
import sys
from ctrlab.distributed import local
from ctrlab.errors import CtrlabError
try:
    sys.exit(local(2, sys.argv[1:]))
except CtrlabError as problem:
    sys.exit(str(problem))
"""
"""A program that starts workers as `ctrlab train --workers 2` does."""


def run(fault: str, model: str, *options, **variables) -> tuple[int, list[str]]:
    """(exit code, lines of errors) of a training of two workers, the second of which has a fault."""
    command = [HERE / "faulty_worker.py", fault, 1, "train", model, "--profile", "tiny", "--optimizations", "all", *options]
    ran = subprocess.run(
        [sys.executable, "-c", LAUNCH, sys.executable, *map(str, command)],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    noise = ("WARNING: All log", "I0000", "W0000")
    return ran.returncode, [line for line in ran.stderr.splitlines() if line and not line.startswith(noise)]


def test_a_disk_that_is_full_on_one_worker(tmp_path):
    """A publication is tried again with the next; a save that can't be written ends the training."""
    library = full_disk.build(tmp_path)
    if library is None:
        pytest.skip("a disk that fills up is a C library: no compiler named cc is here")
    folder, models = tmp_path / "run", tmp_path / "ctr"
    options = ["--batch-size", 64, "--epochs", 10_000, "--checkpoint", folder, "--every", 30]
    published = ["--publish", models, "--publish-every", "300ms"]
    code, errors = run("disk", "deepfm", *options, *published, LD_PRELOAD=str(library))
    assert code == 1
    refused, ended = errors
    assert refused == (
        f"Worker 1: The model could not be published to {models}: No space left on device; what was there before is as it was; "
        "free some space or name another folder. The next publication is to have these changes, too."
    )
    step = json.loads((folder / "workers.json").read_text())["saves"][0]["step"] + 30
    assert ended == (
        f"Worker 1: The checkpoint of step {step} could not be written to {folder}/worker-1-of-2: No space left on device. "
        "Earlier ones are as they were; free some space or name another folder, and resume."
    )
    assert {path.name for path in (models / "1.updates").iterdir()} >= {"1", "2"}
    assert not list(models.glob(".parts-*"))


def test_a_table_that_does_not_fit_in_the_memory_of_one_worker():
    code, errors = run("memory", "din", "--dim", 32, MALLOC_ARENA_MAX="1")
    assert code == 1
    assert errors == [
        "Worker 1: Table 'user' must fit in memory; it has 300,000 rows of 32 numbers: give its columns fewer `buckets`, or "
        'take embedding="variable", whose rows come with their ids.'
    ]
