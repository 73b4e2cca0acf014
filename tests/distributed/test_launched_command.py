"""The commands that a launcher may start on each worker: a `ctrlab train` that resumes when it is started again. Others are
refused.
"""

import pytest
import typer

from ctrlab.cli.workers.ray import resumable
from ctrlab.errors import CtrlabError

TRAIN = ["train", "dlrm", "--checkpoint", "run"]


def test_it_goes_on_from_its_last_save():
    assert resumable(TRAIN, 3) == [*TRAIN, "--resume"]
    assert resumable([*TRAIN, "--resume"], 3) == [*TRAIN, "--resume"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "give `train` --checkpoint with a folder"),
        ("--checkpoint run --workers 2", "leave out the --workers"),
        ("--checkpoint run --full-every 2", "add --embedding variable"),
        ("--checkpoint run --publish-every 0s", "--publish-every takes a time above 0"),
        ("--checkpoint run --idle 5s", "name the folder with --follow"),
        ("--checkpoint run --save x.keras", "--save takes a whole model"),
        ("--checkpoint run --optimizations nosuch", "Unknown optimization 'nosuch'"),
        ("--checkpoint run --profile nosuch", "Unknown profile 'nosuch'"),
        ("--checkpoint run --units zzz", "received 'zzz'"),
        ("--checkpoint run --dropout 2", r"`dropout` must be in \[0, 1\)"),
        ("--checkpoint run --validation 10%", "leave out --follow and --validation"),
        ("--checkpoint run --follow joined", "leave out --follow and --validation"),
    ],
)
def test_what_train_would_refuse_is_refused_here(words, says):
    with pytest.raises(CtrlabError, match=says):
        resumable(["train", "dlrm", *words.split()], 2)


def test_other_commands_and_options_are_refused():
    with pytest.raises(CtrlabError, match="received race"):
        resumable(["race"], 2)
    with pytest.raises(typer.exceptions.TyperException, match="No such option: --chekpoint") as refused:
        resumable(["train", "dlrm", "--chekpoint", "run"], 2)
    assert refused.value.exit_code == 2


def test_one_worker_may_do_what_several_may_not():
    words = [*TRAIN, "--validation", "10%", "--save", "x.keras"]
    assert resumable(words, 1) == [*words, "--resume"]
