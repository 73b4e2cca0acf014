"""Eight cores that serve a main model and two variants: split, shared, and some of them dedicated to the main model."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure

COLOURS = {"main": BLUE, "A": ORANGE, "B": GREEN, "": GREY}
LAYOUTS = {
    "split": ["main"] * 6 + ["A", "B"],
    "shared": [""] * 8,
    "dedicated": ["main"] * 6 + [""] * 2,
}
WIDE, HIGH = 62, 30


def policies() -> Figure:
    """The models whose requests each of eight cores takes, by policy."""
    figure = Figure(740, 230, "Eight cores, by policy: split among models, shared by all, or some dedicated to the main model")
    says = {
        "split": "each model has cores of its own, in proportion to its work",
        "shared": "one queue; any core takes any model's request",
        "dedicated": "the main model has what it needs; the variants share the rest",
    }
    for row, (policy, cores) in enumerate(LAYOUTS.items()):
        y = 20 + 68 * row
        figure.text(110, y + HIGH / 2, policy, anchor="end", bold=True)
        for core, model in enumerate(cores):
            label = model or ("any" if policy == "shared" else "A, B")
            figure.box(125 + (WIDE + 6) * core, y, WIDE, HIGH, label, colour=COLOURS[model])
        figure.text(125, y + HIGH + 14, says[policy], anchor="start", size=12, faint=True)
    return figure


def _frame(policy: str, begun: int) -> Figure:
    """The first of six requests on two cores, up to a number; one of model A takes long."""
    figure = Figure(740, 150, f"Six requests on two cores, {policy}")
    due = [(0, "main", 2), (0.4, "A", 6), (1, "main", 2), (2, "main", 2), (3, "main", 2), (4, "main", 2)]
    free, lanes = [0.0, 0.0], {"core 1": [], "core 2": []}
    for at, model, work in due[:begun]:
        core = {"split": 0 if model == "main" else 1}.get(policy, free.index(min(free)))
        begin = max(at, free[core])
        free[core] = begin + work
        lanes[f"core {core + 1}"].append((begin, free[core], model, COLOURS[model]))
    lanes["due"] = [(at, at + 0.35, "", COLOURS[model]) for at, model, _ in due]
    figure.timeline(90, 10, 600, lanes, end=12, lane=34)
    return figure


def queue() -> Animation:
    """The same six requests, split and shared."""
    frames = [
        (
            _frame("split", 3),
            "Split: core 1 is the main model's, core 2 is A's. The main model's second request waits.",
        ),
        (_frame("split", 6), "Core 2 has answered A's request and idles. The main model's last request ends at 10."),
        (_frame("shared", 3), "Shared: each request takes the core that is free first. A's long request keeps core 2."),
        (_frame("shared", 6), "Later core 2 helps the main model."),
    ]
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.0)
