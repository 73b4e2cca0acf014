"""The pages are built from the docstrings without a warning, and what is broken in them fails the build."""

import os
import subprocess
import sys

import pytest
from pages import ROOT

from tests import forked

sys.path.insert(0, str(ROOT / "docs" / "extensions"))
import docstrings
import reference


def build(source, out, *options) -> subprocess.CompletedProcess:
    """Builds pages as `make docs` does."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *options, source, out]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "docs" / "extensions"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return forked.run(command, env=environment, capture_output=True, text=True)


def test_the_pages_are_built_without_a_warning(tmp_path):
    built = build(ROOT / "docs", tmp_path, "-E")
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "reference" / "ctrlab.embedding.html").read_text()
    for text in ("ctrlab.embedding.Embedding", 'href="ctrlab.errors.html#ctrlab.errors.CtrlabError"', "Bloom filter"):
        assert text in page
    assert {f"{name}.html" for name in reference.public()} <= {path.name for path in (tmp_path / "reference").iterdir()}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a page](nowhere.md)", "nowhere.md"),
        ("[a heading](#nothing)", "nothing"),
        ("{py:class}`ctrlab.embedding.Embeding`", "ctrlab.embedding.Embeding"),
        ("{py:obj}`ctrlab.nothing`", "ctrlab.nothing"),
    ],
)
def test_a_broken_reference_fails_the_build(tmp_path, text, says):
    (tmp_path / "index.md").write_text(f"# A page\n\n{text}\n")
    settings = {"extensions": "sphinx.ext.autodoc,myst_parser,docstrings", "nitpicky": "1", "myst_heading_anchors": "3"}
    built = build(tmp_path, tmp_path / "out", "-C", *(f"-D{name}={value}" for name, value in settings.items()))
    assert built.returncode == 1 and says in built.stderr


def test_what_is_public_is_what_packages_name():
    import ctrlab.embedding
    import ctrlab.ops

    public = reference.public()
    assert list(public["ctrlab.embedding"]) == ctrlab.embedding.__all__
    assert public["ctrlab.ops"]["lookup"].__name__ == "ctrlab.ops.lookup"
    assert {"gru", "attention"} <= set(public["ctrlab.ops"]) and "benches" not in public["ctrlab.ops"]


def test_a_page_of_a_module_that_is_gone_goes(tmp_path):
    (tmp_path / "ctrlab.gone.rst").write_text("Gone")
    reference.write(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert "ctrlab.gone.rst" not in {path.name for path in before} and len(before) > 20
    reference.write(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before, (
        "pages that did not change are not read again"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Figures:\n\n    a -> *b*\n\nand text.", "Figures:\n\n.. code-block:: text\n\n    a -> *b*\n\nand text."),
        (
            "It takes\n\n    x: *float32*.\n    y, z: of\n        x.\n\nand",
            "It takes\n\n- **x**: *float32*.\n- **y, z**: of\n  x.\n\nand",
        ),
        ("A * b, |x| and rows_ of `a_*`s.", "A \\* b, \\|x\\| and rows\\_ of `a_*`\\ s."),
        ("- a list\n  of *one*", "- a list\n  of *one*"),
        ("It is *not* a * b*c", "It is *not* a \\* b\\*c"),
        (">>> 2 * 3", ">>> 2 * 3"),
        ("Args:\n    dim: D.", "Args:\n    dim: \\D."),
        ("Returns:\n    {name: row}, sorted", "Returns:\n    : {name: row}, sorted"),
        (
            "Raises:\n    BadData: no row. OSError, UnknownName: no\n    file.\n\nText",
            "Raises:\n    BadData: no row. \n    OSError, UnknownName: no\n        file.\n\nText",
        ),
    ],
)
def test_a_docstring_means_what_it_says(text, expected):
    assert docstrings.restructured(text.split("\n")) == expected.split("\n")


def test_attributes_that_share_a_description_have_one_each():
    lines = ["Attributes:", "    rows, test_rows: how many", "        there are.", "    seed: of them."]
    expected = ["    rows: how many", "        there are.", "    test_rows: how many", "        there are."]
    assert docstrings.one_name_each(lines) == [lines[0], *expected, lines[3]]
