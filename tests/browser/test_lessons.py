"""A real browser opens a real lesson: it runs top to bottom, its chart moves while the cell runs, its animation plays, its
slider redraws a plot."""

import shutil

import pytest

from ctrlab.lessons import index, lab, notebook, places
from ctrlab.profiling import doctor

LESSON = "02_ops/01_indicator_column"
LOOK_AT = ("profile", "exercise-2", "measure-op", "train", "measure-step", "loses-code", "finish")
CELL_SECONDS = 120

# Notes each look of the live chart's curves while a cell runs, as it is drawn; kept in window.curves.
WATCH = """() => {
  window.curves = new Set();
  new MutationObserver(() => {
    const running = [...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'));
    const charts = [...document.querySelectorAll('.js-plotly-plot')].filter(c => c.textContent.includes('same batches'));
    const lines = charts.flatMap(c => [...c.querySelectorAll('.js-line')]).map(line => line.getAttribute('d'));
    if (running && lines.length) window.curves.add(lines.join());
  }).observe(document.body, {subtree: true, childList: true, attributeFilter: ['d']});
}"""
IDLE = "() => ![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'))"
ERROR = "[data-mime-type='application/vnd.jupyter.stderr']"  # of a traceback too


def settle(page) -> None:
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


@pytest.mark.timeout(600)
def test_a_lesson_runs_in_a_browser(jupyter, page, keep):
    shutil.copy(places.lesson_path(LESSON), jupyter.work / "lesson.ipynb")
    page.goto(jupyter.url("lesson.ipynb"))
    settle(page)
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle")
    page.evaluate(WATCH)
    page.click(".jp-Notebook .jp-Cell >> nth=0")
    page.keyboard.press("Escape")
    for cell in notebook.read(places.lesson_path(LESSON))["cells"]:
        page.keyboard.press("Shift+Enter")
        page.wait_for_function(IDLE, timeout=CELL_SECONDS * 1000)
        assert page.locator(ERROR).all_inner_texts() == []
        if cell["id"] in LOOK_AT:
            page.wait_for_timeout(500)
            keep(cell["id"])
    page.wait_for_selector("text=Saved: passed.")
    moved = page.evaluate("window.curves.size")
    assert moved >= 3, f"the live chart was seen in {moved} states while its cell ran"

    play = page.locator(".ctrlab-animation")
    play.scroll_into_view_if_needed()
    page.wait_for_selector(".ctrlab-animation :text('1 of 6')")
    assert play.locator("figure:visible").count() == 1
    play.locator("button", has_text="Next").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".ctrlab-animation :text('3 of 6')")
    keep("animation")
    play.locator("button", has_text="Play").click()
    page.wait_for_selector(".ctrlab-animation :text('4 of 6')")
    play.locator("button", has_text="Pause").click()

    explorer = page.locator(".widget-vbox:has(.js-plotly-plot):has-text('bytes per example')").last
    explorer.scroll_into_view_if_needed()
    page.locator(".widget-hslider .noUi-base").first.click(position={"x": 2, "y": 2})
    explorer.locator(".textpoint:has-text('192')").wait_for()  # 4 V (2 L + 4) with V = 2, L = 10
    keep("slider")


@pytest.mark.timeout(300)
def test_the_index_opens_with_map_machine_and_progress(jupyter, page, keep):
    lab.copy_lessons(jupyter.work)
    index.write(jupyter.work, doctor.examine())
    page.goto(jupyter.url("index.ipynb"))
    settle(page)
    page.wait_for_selector(".jp-RenderedMarkdown h1:has-text('The CTR lab')")
    for heading in ("This machine", "In a room", "To come"):
        page.wait_for_selector(f".jp-RenderedMarkdown:has-text('{heading}')", state="attached")  # drawn when there is time
    keep("index")
    page.click("a:has-text('Drop the one-hot')")
    page.wait_for_selector(".jp-RenderedMarkdown h1:has-text('Drop the one-hot')")
    keep("learner")

    link = page.locator("a[href*='glossary.md'][href*='#']:visible").nth(2)
    entry = link.get_attribute("href").partition("#")[2]
    link.click()
    heading = page.locator(f".jp-MarkdownViewer h3[data-jupyter-id='{entry}']")
    heading.wait_for()
    page.wait_for_function("heading => heading.getBoundingClientRect().top < 200", arg=heading.element_handle())
    keep("glossary")
