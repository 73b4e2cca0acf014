"""The commands that README.md and the guides show: each is one that the program understands, and the quick ones run."""

import os
import re
import shlex
import sys
from pathlib import Path

import pages
import pytest
import typer
from pages import PAGES, ROOT

from ctrlab import cli
from studies import app as studies
from tests import forked

OTHERS = {"apt-get", "conda", "cp", "curl", "export", "for", "haproxy", "journalctl", "kubectl", "pip", "systemctl"}
"""Programs that are not ours."""
QUICK = {
    "README.md": """
        ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume
        ctrlab export run --out models/ctr
        ctrlab train dlrm --embedding variable --admission 2 --evict-after 50000 --storage rows --memory-rows 2000000 \
            --checkpoint grown --every 1000 --full-every 24
        ctrlab embedding analyze grown --html grown.html --out keys.parquet
        ctrlab checkpoints merge grown one
        ctrlab checkpoints reshard one/*.safetensors --shards 4 --out four
        ctrlab data list
    """
}
"""Commands of a page that take seconds at profile `tiny`; they run in this order in one folder."""


def leaves(command):
    """All commands below a group."""
    return [command] if not hasattr(command, "commands") else [c for below in command.commands.values() for c in leaves(below)]


@pytest.fixture(scope="module")
def program():
    """The command `ctrlab`, whose commands do nothing."""
    whole = typer.main.get_command(cli.app)
    whole.commands["bench"].commands |= typer.main.get_command(studies.app).commands
    for command in leaves(whole):
        command.callback = lambda **options: None
    return whole


def understood(program, words: list[str]) -> bool:
    """Whether the program takes these words; what it says about others is on stderr."""
    with pytest.raises(SystemExit) as ended:
        program.main(words, prog_name="ctrlab")
    return ended.value.code == 0


def known_to(program, words: list[str]) -> bool:
    """Whether a command in running text, which may leave out arguments, has a name and options that there are."""
    command = program
    for word in words:
        if not hasattr(command, "commands") or word.startswith("-"):
            break
        if word not in command.commands:
            return False
        command = command.commands[word]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    return {word.partition("=")[0] for word in words if word.startswith("--")} <= options


def program_of(command: str) -> list[str]:
    """The words of a command without what a shell takes for itself: variables before it, `&` behind it."""
    words = shlex.split(command)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return words[:-1] if words[-1] == "&" else words


@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_a_page_is_understood(program, page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for command in pages.commands(PAGES[page].read_text()):
        name, *words = program_of(command)
        if name == "ctrlab":
            assert understood(program, words), command
        elif name == "make":
            assert set(words) <= targets, command
        else:
            assert name in OTHERS, command


@pytest.mark.parametrize("page", PAGES)
def test_each_command_in_the_text_of_a_page_is_known(program, page):
    assert [code for code in pages.inline(PAGES[page].read_text()) if not known_to(program, code.split()[1:])] == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("trian wdl", "No such command 'trian'"),
        ("train wld", "Unknown model 'wld'"),
        ("train wdl --optimisations all", "No such option: --optimisations"),
        ("bench ops gru --chek", "No such option: --chek"),
        ("data convert", "Missing argument"),
    ],
)
def test_a_command_that_is_not_ours_is_found(program, capsys, command, says):
    assert not understood(program, command.split())
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve --log-sample 0.1", "data list", "export RUN", "--version"])
def test_a_command_in_the_text_that_is_ours_is_known(program, command):
    assert known_to(program, command.split())


@pytest.mark.parametrize("command", ["serf", "data lost", "serve --log-samples 0.1", "--versions"])
def test_a_command_in_the_text_that_is_not_ours_is_not(program, command):
    assert not known_to(program, command.split())


def unfolded(command: str, folder: Path) -> list[str]:
    """Its words, with the files that a shell takes a pattern for."""
    words = [sorted(str(path.relative_to(folder)) for path in folder.glob(word)) or [word] for word in shlex.split(command)]
    return [word for each in words for word in each]


@pytest.mark.smoke
@pytest.mark.parametrize("page", QUICK)
def test_the_quick_commands_of_a_page_run(page, tmp_path):
    def words(command: str) -> str:
        return " ".join(command.split())

    shown = {words(command) for command in pages.commands(PAGES[page].read_text())}
    environment = os.environ | {"CTRLAB_PROFILE": "tiny"}
    for command in map(words, filter(str.strip, QUICK[page].splitlines())):
        assert command in shown
        ran = forked.run(
            [sys.executable, "-m", *unfolded(command, tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
