"""Frames that a reader plays or steps through; without a script they stand one below another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ctrlab.errors import CtrlabError
from ctrlab.lessons.figures.kit import COLOUR, Figure

STYLE = """
.ctrlab-animation { display: inline-block; max-width: 100%; }
.ctrlab-animation figure { margin: 0 0 8px; }
.ctrlab-animation figcaption { line-height: 1.4; min-height: 2.8em; margin-top: 4px; }
.ctrlab-animation[data-ready] .frames { display: grid; }
.ctrlab-animation[data-ready] figure { grid-area: 1 / 1; visibility: hidden; }
.ctrlab-animation[data-ready] figure.shown { visibility: visible; }
.ctrlab-animation button { color: inherit; background: transparent; border: 1px solid currentColor; border-radius: 4px;
  font: inherit; min-width: 5.5em; padding: 3px 10px; cursor: pointer; }
.ctrlab-animation button[aria-disabled=true] { opacity: 0.4; cursor: default; }
.ctrlab-animation [role=status] { margin-left: 8px; }
"""

# Finds its animation by the class, so no id is needed and the same animation may come twice in a page. It contains no "<" and
# no "&": the whole is XML. JupyterLab runs it again for each view of the notebook.
SCRIPT = """
for (const root of document.querySelectorAll(".ctrlab-animation:not([data-ready])")) {
  const frames = [...root.querySelectorAll("figure")], last = frames.length - 1;
  const [back, play, forward] = root.querySelectorAll("button"), count = root.querySelector("[role=status]");
  let at = 0, timer = null;
  const show = next => {
    at = Math.max(0, Math.min(last, next));
    frames.forEach((frame, i) => frame.classList.toggle("shown", i === at));
    count.textContent = (at + 1) + " of " + frames.length;
    back.ariaDisabled = at === 0;  // not `disabled`: keys would no longer arrive
    forward.ariaDisabled = at === last;
  };
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  const step = by => { stop(); show(at + by); };
  back.onclick = () => step(-1);
  forward.onclick = () => step(1);
  play.onclick = () => {
    if (timer) return stop();
    show(at === last ? 0 : at);
    play.textContent = "Pause";
    timer = setInterval(() => { show(at + 1); if (at === last || !root.isConnected) stop(); }, MILLISECONDS);
  };
  root.onkeydown = event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); step(by); }
  };
  play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.querySelector(".controls").hidden = false;
  root.setAttribute("data-ready", "");
  show(0);
}
"""
CONTROLS = (
    '<div class="controls" hidden="hidden" data-lm-suppress-shortcuts="true">'  # Enter presses a button, also in JupyterLab
    '<button type="button" aria-label="step back">Back</button> '
    '<button type="button">Play</button> '
    '<button type="button" aria-label="step forward">Next</button>'
    '<span role="status"></span></div>'
)


class Animation:
    """Figures of one size, shown one at a time above three buttons: a step back, play or pause, a step forward.

    Nothing plays by itself. Left and right arrow keys step, too. A reader who asked for less motion gets no play button.

    Args:
        frames: at least two.
        captions: a sentence or two per frame: what has just happened, and why.
        seconds: how long play shows a frame.
    """

    def __init__(self, frames: Sequence[Figure], captions: Sequence[str], seconds: float = 2.5):
        if len(frames) < 2 or len(frames) != len(captions):
            raise CtrlabError(
                f"An animation has two frames or more and a caption for each; {len(frames)} frames and {len(captions)} captions "
                "were given."
            )
        if len({(frame.width, frame.height) for frame in frames}) > 1:
            sizes = ", ".join(f"{frame.width} x {frame.height}" for frame in frames)
            raise CtrlabError(f"The frames of an animation are of one size; these are {sizes}.")
        if not 0 < seconds < math.inf:
            raise CtrlabError(f"An animation shows a frame for some seconds, more than 0; {seconds} was given.")
        self.frames, self.captions, self.seconds = tuple(frames), tuple(captions), seconds

    def __repr__(self) -> str:
        return f"Animation({self.frames[0].title!r}, {len(self.frames)} frames)"

    def _repr_html_(self) -> str:
        shown = "".join(
            f"<figure>{frame._repr_html_()}<figcaption>{escape(caption)}</figcaption></figure>"
            for frame, caption in zip(self.frames, self.captions)
        )
        script = SCRIPT.replace("MILLISECONDS", f"{1_000 * self.seconds:g}")
        root = f'<div class="ctrlab-animation" role="group" aria-label="{escape(self.frames[0].title)}" style="{COLOUR}">'
        return f'{root}<style>{STYLE}</style><div class="frames">{shown}</div>{CONTROLS}<script>{script}</script></div>'
