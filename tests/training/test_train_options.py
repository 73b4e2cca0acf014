"""The options of `ctrlab train` about a model's numbers."""

import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.cli.train_options import share_of, sizes_of
from ctrlab.errors import CtrlabError
from ctrlab.models import MODELS

NONE = {"optimizer": None, "learning_rate": None, "clip_norm": None, "batch_size": None}


def test_options_replace_single_numbers_of_a_preset():
    found = sizes_of("din", "small", ["attention=16", "64,32"], {"dropout": 0.1}, NONE | {"learning_rate": 0.2, "clip_norm": 0.0})
    small = MODELS["din"].presets["small"]
    assert found.units == {"head": (64, 32), "attention": (16,)} and found.dropout == 0.1 and found.l2 == small.l2
    assert found.hyper.learning_rate == 0.2 and found.hyper.clip_norm is None
    assert found.hyper.batch_size == small.hyper.batch_size
    assert sizes_of("din", "contest", [], {"dropout": None}, NONE) == MODELS["din"].presets["contest"]


def test_another_optimizer_comes_with_its_learning_rate():
    own = MODELS["din"].presets["small"].hyper
    assert sizes_of("din", "small", [], {}, NONE | {"optimizer": own.optimizer}).hyper == own
    other = NONE | {"optimizer": "sgd" if own.optimizer != "sgd" else "adagrad"}
    assert sizes_of("din", "small", [], {}, other | {"learning_rate": 0.2}).hyper.optimizer == other["optimizer"]
    with pytest.raises(
        CtrlabError, match=rf"without --learning-rate, .* {own.learning_rate:g} is for {own.optimizer}: give both"
    ):
        sizes_of("din", "small", [], {}, other)


@pytest.mark.parametrize("text, share", [("10%", 0.1), ("0.25", 0.25), ("12.5%", 0.125)])
def test_a_share_is_a_percentage_or_a_number(text, share):
    assert share_of(text) == share


@pytest.mark.parametrize(
    "options, says",
    [
        (["--units", "depp=32"], "Unknown part 'depp'; known are deep, top. Did you mean 'deep'?"),
        (["--units", "deep=a"], "--units takes a part and its layers, such as deep=128,64; received 'deep=a'."),
        (["--units", "deep=0"], "The units of a layer of 'deep' must be a whole number from 1 to 65,536; received 0."),
        (["--dim", "0"], "The dimension of embeddings must be a whole number from 1 to 65,536; received 0."),
        (["--dropout", "1"], "`dropout` must be in [0, 1); received 1.0."),
        (["--learning-rate", "0"], "`learning_rate` must be a finite number above 0; received 0.0."),
        (["--clip-norm", "-1"], "`clip_norm` must be a finite number above 0; received -1.0."),
        (["--batch-size", "0"], "The batch size must be a whole number from 1 to 1,073,741,824; received 0."),
        (["--validation", "some"], "--validation takes a share of the rows, such as 10% or 0.1; received 'some'."),
        (["--validation", "10%", "--follow", "x"], "--validation holds out rows of a data set; leave it out with --follow."),
    ],
)
def test_a_wrong_option_is_one_sentence(options, says):
    found = CliRunner().invoke(cli.app, ["train", "deepfm", "--profile", "tiny", *options])
    assert found.exit_code == 1 and found.stderr == says + "\n"


def test_a_run_with_validation_rows_says_its_epochs(tmp_path):
    options = "train deepfm --profile tiny --size small --units deep=16 --batch-norm --epochs 2 --validation 20% --patience 1"
    found = CliRunner(env={"CTRLAB_CACHE": str(tmp_path), "COLUMNS": "200"}).invoke(cli.app, options.split())
    assert found.exit_code == 0, found.output
    assert "AUC on the validation rows after each epoch: 0." in found.stdout and "weights are those after epoch" in found.stdout


def test_share_is_text():
    with pytest.raises(CtrlabError, match="received '%'"):
        share_of("%")
