"""A real browser opens a real lesson: it runs top to bottom, its chart moves while the cell runs, its slider answers."""

import shutil
from pathlib import Path

import pytest

from ctrlab.lessons import doctor, index, lab, places

SCREENSHOTS = Path(__file__).with_name("screenshots")
LESSON = "02_ops/solutions/01_indicator_column.ipynb"
RUN_SECONDS = 240

# Notes, every 50 ms, the path of the live chart's first curve and whether a cell is running: kept in window.curves.
WATCH = """() => {
  window.curves = [];
  setInterval(() => {
    const line = document.querySelector('.jp-OutputArea .js-plotly-plot .scatterlayer .trace .js-line');
    const running = [...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'));
    if (line) window.curves.push([line.getAttribute('d') || '', running]);
  }, 50);
}"""
IDLE = """() => {
  const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(p => p.textContent);
  return prompts.length > 0 && !prompts.some(p => p.includes('*'));
}"""


@pytest.fixture(scope="module", autouse=True)
def folder():
    SCREENSHOTS.mkdir(exist_ok=True)


def settle(page) -> None:
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


@pytest.mark.timeout(600)
def test_a_lesson_runs_in_a_browser(jupyter, page):
    shutil.copy(places.notebooks() / LESSON, jupyter.work / "lesson.ipynb")
    page.goto(jupyter.url("lesson.ipynb"))
    settle(page)
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
    page.evaluate(WATCH)
    page.click("text=Run >> nth=0")
    page.click("text=Run All Cells")
    page.wait_for_function("() => document.body.innerText.includes('Saved: passed.')", timeout=RUN_SECONDS * 1000)
    page.wait_for_function(IDLE)
    page.screenshot(path=SCREENSHOTS / "lesson_end.png")
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0

    moved = {d for d, running in page.evaluate("window.curves") if running and d}
    assert len(moved) >= 3, f"the live chart was seen in {len(moved)} states while cells ran"

    slider = page.locator(".widget-hslider .noUi-handle").first
    slider.scroll_into_view_if_needed()
    answer = page.locator(".widget-html-content:has-text('A row moves')")
    before = answer.inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => !document.body.innerText.includes(before)", arg=before)
    page.screenshot(path=SCREENSHOTS / "lesson_slider.png")
    assert answer.inner_text() != before


@pytest.mark.timeout(300)
def test_the_index_opens_with_map_machine_and_progress(jupyter, page):
    lab.copy_lessons(jupyter.work)
    index.write(jupyter.work, doctor.examine())
    page.goto(jupyter.url("index.ipynb"))
    settle(page)
    page.wait_for_selector("text=The CTR lab")
    for heading in ("This machine", "In a room", "to come"):
        assert page.locator(f".jp-RenderedMarkdown:has-text('{heading}')").count() > 0
    page.screenshot(path=SCREENSHOTS / "index.png")
    page.click("a:has-text('Drop the one-hot')")
    page.wait_for_selector(".jp-RenderedMarkdown h1:has-text('Drop the one-hot')")
    page.screenshot(path=SCREENSHOTS / "learner.png")
