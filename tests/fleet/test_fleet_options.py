"""What `ctrlab fleet` and its instances say of options and a token that can't be."""

import pytest
from fake_fleets import QUICK, fleet_of
from typer.testing import CliRunner

from ctrlab.cli import app
from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.plan import Plan


def said(*arguments, **environment):
    """On standard error, of a command that fails."""
    found = CliRunner(env=environment).invoke(app, [str(each) for each in arguments])
    assert found.exit_code == 1 and found.stderr.count("\n") == 1, found.output + found.stderr
    return found.stderr


@pytest.mark.parametrize("command", ["serve", "fleet"])
@pytest.mark.parametrize("token", ["a\n", "é", " a"])
def test_a_token_that_no_header_holds_is_refused_before_anything_is_loaded(tmp_path, command, token):
    assert "A token is printable ASCII" in said(command, tmp_path, CTRLAB_TOKEN=token)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--serve", "--host ::1"], "received --host"),
        (["--serve", "--no-token"], "received --no-token"),
        (["--serve", "'"], "--serve takes options as a shell does"),
        (["--experiment", "\udcff"], "a name that can be printed"),
    ],
)
def test_options_that_a_fleet_does_not_take_are_refused(tmp_path, arguments, says):
    assert says in said("fleet", tmp_path, *arguments)


def test_an_only_arm_has_all_users(tmp_path):
    assert "received 50 percent" in said("fleet", f"control={tmp_path}:50")


def test_the_whole_reason_of_a_wrong_option_is_told(tmp_path):
    """By a real instance: it ends before it loads anything."""
    made = Plan({"all": tmp_path}, instances=1, options=["--policy", "by_modell"], patience=QUICK)
    reason = r"exit code 2: Invalid value for '--policy': .*least_in_flight"
    with pytest.raises(CtrlabError, match=reason), fleet_of(made):
        pass
