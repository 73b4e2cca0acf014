"""One training at a time publishes to a folder, whether others are in this process, in another, or killed."""

import subprocess
import sys
from types import SimpleNamespace

import keras
import pytest

from ctrlab import models, training
from ctrlab.errors import CtrlabError
from ctrlab.serving.publishing import Publisher
from ctrlab.serving.publishing_folder import LOCKED
from ctrlab.serving.versions import LAST

HOLDS = """
import sys, time
from pathlib import Path
from ctrlab.embedding.formats.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def trainer(small_batches):
    """Makes a model's publisher for a folder."""
    schema, batches = small_batches("criteo")

    def publisher(folder, optimizer=None, rows=(batches[0][0],)):
        model = models.build("dlrm", schema, optimizations="all")
        return Publisher(folder, model, optimizer or training.make_optimizer(model), rows=rows)

    return SimpleNamespace(publisher=publisher)


def test_a_second_publisher_is_refused_until_the_first_ends(trainer, tmp_path):
    first = trainer.publisher(tmp_path / "ctr")
    for _ in range(2):
        with pytest.raises(CtrlabError, match=r"One training at a time publishes to a folder; another publishes to .*ctr"):
            trainer.publisher(tmp_path / "ctr")
    trainer.publisher(tmp_path / "other").close()
    first.close()
    second = trainer.publisher(tmp_path / "ctr")
    with pytest.raises(ZeroDivisionError), second:
        1 / 0  # noqa: B018
    trainer.publisher(tmp_path / "ctr").close()
    seen = {place.name for place in (tmp_path / "ctr").iterdir()}
    assert seen == {"1", "1.updates", "2", "2.updates", LOCKED, LAST}


def test_a_killed_publisher_holds_nothing(trainer, tmp_path):
    (tmp_path / LOCKED).mkdir()
    command = [sys.executable, "-c", HOLDS, str(tmp_path / LOCKED)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(CtrlabError, match="One training at a time"):
            trainer.publisher(tmp_path)
        other.kill()
        other.wait()
    trainer.publisher(tmp_path).close()


def test_a_publisher_that_was_refused_holds_nothing(trainer, tmp_path):
    """Also while its exception is kept, as notebooks do."""
    with pytest.raises(CtrlabError, match="missing") as of_rows:
        trainer.publisher(tmp_path / "ctr", rows=[{}])
    with pytest.raises(CtrlabError, match=r"takes a ctrlab\.training\.TouchedRows") as of_the_optimizer:
        trainer.publisher(tmp_path / "ctr", keras.optimizers.SGD())
    trainer.publisher(tmp_path / "ctr").close()
    assert of_rows and of_the_optimizer


def test_a_folder_that_can_not_be_made_is_a_sentence(trainer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CtrlabError, match=r"could not be published to .*file/ctr"):
        trainer.publisher(tmp_path / "file" / "ctr")
