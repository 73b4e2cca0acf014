"""The study of table sizes: it goes on where it was, and says what an option takes."""

import json
import re

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.training import table_sizes
from studies.table_sizes import command


@pytest.fixture(scope="module")
def sample():
    return table_sizes.generated(4_096)


def test_a_study_goes_on_where_it_was(sample, tmp_path, monkeypatch):
    out, done = tmp_path / "study.json", []
    monkeypatch.setattr(table_sizes, "run", lambda *args: done.append(args[1:4]) or {**sample.about, **_key(*args)})
    command.study([(0, sample)], ["perfect", "hashed"], [1.0, 5.0], out, "dlrm")
    assert done == [("perfect", 1.0, 0), ("hashed", 1.0, 0), ("hashed", 5.0, 0)]
    command.study([(0, sample), (1, sample)], ["hashed"], [5.0], out, "dlrm")
    assert done[3:] == [("hashed", 5.0, 1)]
    assert len(json.loads(out.read_text())["runs"]) == 4


def test_the_command_takes_lists_and_says_a_wrong_one_in_a_sentence(sample, tmp_path, monkeypatch):
    out, asked = tmp_path / "study.json", []
    monkeypatch.setattr(table_sizes, "generated", lambda *args: asked.append(args) or sample)
    monkeypatch.setattr(table_sizes, "run", lambda *args: {**sample.about, **_key(*args)})
    command.command(out, rare=",0.4", ways="perfect;hashed", compressions="1,5", seeds=1)
    assert asked == [(100_000, 0, None, None), (100_000, 0, 0.4, None)] and out.exists()
    for wrong, says in (
        ({"rare": "0.4;0.5"}, "--rare takes numbers separated by commas; got '0.4;0.5'."),
        ({"compressions": "5,0"}, "--compressions takes numbers above 0; got '5,0'."),
        ({"ways": "perfect;hash"}, "Did you mean 'hashed'?"),
    ):
        with pytest.raises(CtrlabError, match=re.escape(says)):
            command.command(out, **wrong)


def _key(sample, way, compression, seed, model):
    return {"model": model, "way": way, "compression": 1.0 if way == "perfect" else compression, "seed": seed}
