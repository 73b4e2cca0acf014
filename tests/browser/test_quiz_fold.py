"""A reader sees a quiz once: in JupyterLab as a widget that answers, on a page of nbconvert's as folded text."""

import subprocess
import sys

import nbformat
import pytest
from nbformat import v4

ASK = """from ctrlab.lessons import quiz

why = {"8": "A double.", "2": "A half."}
quiz.ask([quiz.Question("How many bytes has a float?", right="4", because="32 bits.", wrong=why)], lambda *answer: None)"""


@pytest.fixture
def asking(jupyter):
    """A notebook that asks one question."""
    path = jupyter.work / "asking.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell(ASK)], metadata=kernel), path)
    return path


@pytest.mark.timeout(300)
def test_jupyterlab_shows_the_widget_alone(jupyter, asking, page, keep):
    page.goto(jupyter.url(asking.name))
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
    page.click(".jp-Notebook .jp-Cell >> nth=0")
    page.keyboard.press("Shift+Enter")
    page.locator(".ctrlab-quiz input[type=radio]").nth(2).check()
    page.locator(".ctrlab-quiz [role=status]:visible").wait_for()
    folded = page.locator(".ctrlab-folded")
    assert folded.count() == 1 and not folded.is_visible()
    keep("quiz")


@pytest.mark.timeout(300)
def test_a_page_of_nbconvert_shows_the_folded_text_alone(asking, page, keep):
    """The page has the widget too, whose state nbconvert stores; to draw it takes scripts from the network."""
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", asking]
    subprocess.run(convert, check=True, capture_output=True, timeout=200)
    page.goto(asking.with_suffix(".html").as_uri(), wait_until="commit")
    answers = page.locator(".ctrlab-folded details")
    answers.wait_for()
    assert not page.locator("text=A double.").last.is_visible()
    answers.locator("summary").click()
    assert answers.locator("text=A double.").is_visible()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p class=ctrlab-quiz>drawn</p>')")  # as with the network
    assert not page.locator(".ctrlab-quiz").is_visible()
    keep("quiz-page")
