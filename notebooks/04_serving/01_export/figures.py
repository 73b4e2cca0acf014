"""A version folder and who reads which file of it; and who owns the bytes of a request and of its answer."""

from __future__ import annotations

from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure


def version() -> Figure:
    """From the training run to a version folder, and from there to servers."""
    figure = Figure(740, 300, "An export writes a version folder; servers read its files")
    model = figure.box(10, 100, 130, 96, "training:\nmodel, slots,\noptimizer", colour=GREY)
    figure.text(230, 20, "models/ctr/1/", anchor="start", bold=True)
    files = (
        ("saved_model.pb", "the graph of a call", GREEN),
        ("assets/weights", "tables, dense tensors", GREEN),
        ("…warmup_requests", "real rows", ORANGE),
        ("ctrlab.json", "columns, checksums", BLUE),
    )
    boxes = []
    for n, (name, what, colour) in enumerate(files):
        box = figure.box(230, 40 + 62 * n, 240, 52, colour=colour)
        figure.text(box.centre[0], box.y + 17, name, code=True)
        figure.text(box.centre[0], box.y + 36, what, size=12, faint=True)
        boxes.append(box)
    figure.arrow(model.right, (230, model.right[1]), "export")
    graph, weights, warm_up, manifest = boxes
    server = figure.box(580, 40, 150, 176, "server:\nloads, warms up,\nthen takes over", colour=GREY)
    for box in (graph, weights, warm_up):
        figure.arrow(box.right, (server.x, box.right[1]))
    verify = figure.box(580, 226, 150, 52, "whoever copies it:\nverify", colour=GREY)
    figure.arrow(manifest.right, verify.left)
    return figure


def call() -> Figure:
    """A request through the C interface: the caller owns its bytes, the library those of the answer."""
    figure = Figure(740, 300, "Four calls of the C interface, and who owns the bytes")
    figure.text(105, 20, "your program", bold=True)
    figure.text(590, 20, "libctrlab_processor.so", bold=True)
    calls = (
        ("initialize(folder)", "a handle, a number", ""),
        ("process(handle, request)", "code; answer, or problem", "the body is yours, the answer the library's"),
        ("free(response)", "", "after this, the answer's bytes are gone"),
        ("release(handle)", "", "the model's memory goes with its last call"),
    )
    for n, (name, back, owns) in enumerate(calls):
        y = 44 + 64 * n
        mine = figure.box(20, y, 200, 40, name, colour=BLUE)
        theirs = figure.box(
            500, y, 180, 40, ("load, warm up", "parse, run, write", "", "")[n] or name.partition("(")[0], colour=GREEN
        )
        figure.arrow((mine.right[0], y + 13), (theirs.x, y + 13))
        if back:
            figure.arrow((theirs.x, y + 28), (mine.right[0], y + 28), colour=GREEN)
            figure.text(360, y + 38, back, size=12)
        if owns:
            figure.text(360, y + (54 if back else 30), owns, size=12, faint=True)
    return figure
