"""The session group that `ctrlab serve` is asked for: as the processor takes it, or a sentence why it can't be."""

import re

import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.cli import serve
from ctrlab.errors import CtrlabError
from ctrlab.server import models
from ctrlab.server.members import group


def test_members_have_the_cpus_that_are_asked_for():
    assert group(2, "by_model", free={0, 1}) == {"name": "all", "members": 2, "policy": "by_model"}
    assert group(2, "round_robin", "0-1;5,7", {0, 1, 5, 6, 7})["cpus"] == ["0-1", "5,7"]
    assert group(1, "round_robin", "1", {0, 1})["cpus"] == ["1"]
    assert sorted(group(2, "round_robin", "auto", {0, 1})["cpus"]) == ["0", "1"]


@pytest.mark.parametrize(
    ("members", "cpus", "says"),
    [
        (3, "", r"--members is at most one for each CPU that the process may use, 2 here; received 3"),
        (3, "0;1;1", r"--members is at most one for each CPU"),
        (3, "auto", r"received 3 members for 2 CPUs"),
        (1, "0;5", r"--cpus has a set of CPUs for each member, such as 0-3;4-7, 1 by --members here; received '0;5'"),
        (2, "0", r"--cpus has a set of CPUs for each member, .*, 2 by --members here; received '0'"),
        (2, "0;", r"--cpus has a set of CPUs for each member, .*; received '0;'"),
        (1, "one", r"--cpus has a set of CPUs for each member, .*; received 'one'"),
        (2, "0;5", r"--cpus names CPUs that the process may use, 0, 1 here; received '0;5', and 5 is not one"),
        (1, "0-2", r"--cpus names CPUs .*, and 2 is not one"),
    ],
)
def test_a_group_that_can_not_be_is_a_sentence(members, cpus, says):
    with pytest.raises(CtrlabError, match=says):
        group(members, "round_robin", cpus, {0, 1})


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--members", "9999"], 1, "--members is at most one for each CPU"),
        (["--cpus", "0;"], 1, "--cpus has a set of CPUs for each member"),
        (["--member-threads", "5000"], 2, "Invalid value for '--member-threads'"),
        (["--batch-rows", "2000000"], 2, "Invalid value for '--batch-rows'"),
        (["--most-slowdown", "1e10"], 2, "Invalid value for '--most-slowdown'"),
    ],
)
def test_ctrlab_serve_says_so_before_it_loads_anything(options, code, says, tmp_path, monkeypatch):
    def load(*words, **options):
        raise AssertionError("nothing is loaded")

    monkeypatch.setattr(serve, "import_tensorflow", load)
    monkeypatch.setattr(models, "Models", load)
    found = CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["serve", str(tmp_path), *options])
    assert found.exit_code == code and says in " ".join(re.sub("[│╭╮╰╯─]", " ", found.output).split()), found.output


def test_the_memory_for_a_request_reaches_the_processor(tmp_path, monkeypatch):
    seen = {}

    def load(*words, **options):
        seen.update(options)
        raise CtrlabError("enough")

    monkeypatch.setattr(serve, "import_tensorflow", lambda: None)
    monkeypatch.setattr(models, "Models", load)
    assert CliRunner().invoke(cli.app, ["serve", str(tmp_path), "--most-memory", "0.5"]).exit_code == 1
    assert seen["most_model_bytes"] == 2**29
