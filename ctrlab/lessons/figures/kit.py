"""Draws the figures of the lessons as SVG: boxes, arrows, tables, tensors, queues, timelines, small plots.

Text and lines take the colour of the page, so a figure can be read in the light and in the dark theme. Fills are shades of the
lab's palette (`profiling.colours`). A figure has no background, loads nothing, and the same calls give the same bytes.

    figure = Figure(600, 200, "A row of the table is read")
    table = figure.table(120, 40, [[1.5, 0.3], [0.2, 0.9]], ids=["7", "8"], marked={1: BLUE})
    figure.arrow(figure.box(10, 60, 60, 30, "id 8").right, table.row(1).left)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from ctrlab.errors import CtrlabError
from ctrlab.profiling.colours import GREY, PALETTE

BLUE, ORANGE, GREEN, PINK, SKY, RED, OLIVE = PALETTE
PAD = "·"
"""A cell that is only padding: its frame is dashed."""

FONT, SMALL = 14, 12
LINE = 17  # from one line of text to the next
FONTS = {False: "var(--jp-ui-font-family, system-ui, sans-serif)", True: "var(--jp-code-font-family, monospace)"}
COLOUR = "color:var(--jp-content-font-color1, currentColor)"
AXIS = 0.55  # opacity of lines that only guide the eye
_NOT_FINITE = re.compile(r'\w+="[^"]*?\b(?:nan|inf)\b[^"]*"')  # an attribute: text has no quotes, they are escaped

Point = tuple[float, float]


class Place(NamedTuple):
    """A rectangle of the figure, and the points of it where an arrow begins or ends."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def left(self) -> Point:
        return self.x, self.centre[1]

    @property
    def right(self) -> Point:
        return self.x + self.width, self.centre[1]

    @property
    def top(self) -> Point:
        return self.centre[0], self.y

    @property
    def bottom(self) -> Point:
        return self.centre[0], self.y + self.height


class Grid(NamedTuple):
    """Cells of one size, of rows that may differ in length."""

    x: float
    y: float
    cell_width: float
    cell_height: float
    lengths: tuple[int, ...]

    def cell(self, row: int, column: int) -> Place:
        """The cell's place."""
        return Place(self.x + column * self.cell_width, self.y + row * self.cell_height, self.cell_width, self.cell_height)

    def row(self, row: int) -> Place:
        """The place of a row's cells."""
        return self.cell(row, 0)._replace(width=self.lengths[row] * self.cell_width)

    @property
    def whole(self) -> Place:
        """The place of all cells."""
        return Place(self.x, self.y, max(self.lengths, default=0) * self.cell_width, len(self.lengths) * self.cell_height)


class Figure:
    """One picture, shown by a notebook as inline SVG. Coordinates are pixels from the upper left; every call adds a part.

    Args:
        width, height: the natural size; on a narrower page the figure shrinks. At most 760 wide, so that text stays readable.
        title: a description of the picture for screen readers.
    """

    def __init__(self, width: int, height: int, title: str):
        if not (0 < width <= 760 and 0 < height <= 1_200):
            raise CtrlabError(f"A figure is 1 to 760 wide and 1 to 1200 high; {width} x {height} was given.")
        if not title.strip():
            raise CtrlabError("A figure has a title, for those who cannot see it; an empty one was given.")
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def __repr__(self) -> str:
        return f"Figure({self.title!r})"

    def _repr_html_(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        style = f"{COLOUR};font-family:{FONTS[False]};max-width:100%;height:auto"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} style="{style}">'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *self._parts, "</svg>"])

    def text(
        self, x: float, y: float, text: object, *, anchor: str = "middle", size: int = FONT, bold=False, code=False, faint=False
    ) -> None:
        """Write text whose first line is centred on height `y`; "\\n" begins a new line.

        Args:
            anchor: what `x` is: the "start", "middle" or "end" of the text.
            code: in the code's font. faint: a faint colour, for mere labels.
        """
        look = [f'font-size="{size}" text-anchor="{anchor}" fill="currentColor"']
        look += ['font-weight="600"'] * bold + ['fill-opacity="0.75"'] * faint
        look += [f'style="font-family:{FONTS[True]};white-space:pre"'] * code
        for number, line in enumerate(str(text).split("\n")):
            baseline = y + number * LINE + 0.35 * size
            self._add(f'<text x="{x:g}" y="{baseline:g}" {" ".join(look)}>{escape(line)}</text>')

    def box(
        self, x: float, y: float, width: float, height: float, label: object = "", *, colour: str = "", dashed=False, code=False
    ) -> Place:
        """A frame with its label in the middle, filled with a shade of `colour`, one of the palette's or GREY."""
        self._rectangle(x, y, width, height, colour=colour, dashed=dashed, radius=5)
        if str(label):
            lines = str(label).count("\n")
            self.text(x + width / 2, y + height / 2 - lines * LINE / 2, label, code=code)
        return Place(x, y, width, height)

    def arrow(
        self, start: Point, end: Point, label: str = "", *, elbow: str = "", colour: str = "", dashed=False, both=False
    ) -> None:
        """An arrow from a point to another, straight or with one bend.

        Args:
            elbow: "across" goes sideways first, "down" goes up or down first.
            label: written above the middle of the arrow.
            both: a head at either end.
        """
        if elbow not in ("", "across", "down"):
            raise CtrlabError(f'An arrow\'s elbow is "across", "down" or empty; {elbow!r} was given.')
        corner = {"across": (end[0], start[1]), "down": (start[0], end[1]), "": start}[elbow]
        bend = [corner] if corner not in (start, end) else []  # a level one has none
        points = [start, *bend, end]
        self._line(points, colour=colour, dashed=dashed)
        for before, tip in [(points[-2], end)] + [(points[1], start)] * both:
            self._head(before, tip, colour)
        if label:
            x, y = bend[0] if bend else ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            self.text(x, y - 11, label, size=SMALL)

    def table(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[object]],
        *,
        ids: Sequence[object] = (),
        header: Sequence[object] = (),
        name: str = "",
        cell: tuple[float, float] = (48, 26),
        marked: Mapping[int | tuple[int, int], str] | None = None,
    ) -> Grid:
        """A grid of values; `x`, `y` is the corner of its first cell, beside which the labels stand.

        Args:
            rows: the cells of each row, of any length; None leaves a cell out, PAD draws it dashed.
            ids: a label on the left of each row. header: a label above each column.
            name: a title above the table.
            cell: width and height of a cell.
            marked: the colour of a row, or of a cell (row, column).
        """
        marked = marked or {}
        grid = Grid(x, y, *cell, tuple(map(len, rows)))
        cells = [((i, j), value) for i, row in enumerate(rows) for j, value in enumerate(row) if value is not None]
        coloured = [(place, value, marked.get(place) or marked.get(place[0], "")) for place, value in cells]
        for place, value, colour in sorted(coloured, key=lambda cell: bool(cell[2])):  # a marked cell's frame lies on top
            self._cell(grid.cell(*place), value, colour)
        for i, label in enumerate(ids):
            self.text(x - 8, grid.cell(i, 0).centre[1], label, anchor="end", size=SMALL, code=True, faint=True)
        for j, label in enumerate(header):
            self.text(grid.cell(0, j).centre[0], y - 11, label, size=SMALL, faint=True)
        if name:
            self.text(x, y - (30 if header else 13), name, anchor="start", bold=True)
        return grid

    def tensor(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[object]],
        *,
        axes: Sequence[str],
        cell: tuple[float, float] = (26, 26),
        marked: Mapping[int | tuple[int, int], str] | None = None,
    ) -> Grid:
        """A tensor as a grid of cells with an arrow along each axis. Rows may be ragged.

        Args:
            rows: as for `table`.
            axes: the letters from the outermost axis on: ("N",), ("B", "T") or ("B", "T", "D"). A third axis goes into the depth.
        """
        if not 1 <= len(axes) <= 3:
            raise CtrlabError(f"A tensor is drawn with one to three axes; {len(axes)} were given.")
        whole = Grid(x, y, *cell, tuple(map(len, rows))).whole
        right, bottom = x + whole.width, y + whole.height
        if len(axes) == 3:
            for layer in (12, 6):
                corner = [(x + layer, y - layer), (right + layer, y - layer), (right + layer, bottom - layer)]
                self._line(corner, opacity=AXIS)
            self.text(right + 18, y - 8, axes[2], anchor="start", size=SMALL, bold=True)
        up = 24 if len(axes) == 3 else 10
        if len(axes) > 1:
            self._axis((x - 10, y), (x - 10, bottom))
            self.text(x - 18, y + whole.height / 2, axes[0], anchor="end", size=SMALL, bold=True)
        self._axis((x, y - up), (right, y - up))
        self.text(x + whole.width / 2, y - up - 11, axes[min(1, len(axes) - 1)], size=SMALL, bold=True)
        return self.table(x, y, rows, cell=cell, marked=marked)

    def queue(
        self, x: float, y: float, items: Sequence[object], *, capacity: int, name: str = "", colour: str = BLUE, cell=(40, 30)
    ) -> Grid:
        """A queue that is filled from the left and emptied at the right: `items[0]` is the one that leaves next."""
        if len(items) > capacity:
            raise CtrlabError(f"A queue of {capacity} places holds no {len(items)} items.")
        free = capacity - len(items)
        row = [PAD] * free + list(items)[::-1]
        return self.table(x, y, [row], name=name, cell=cell, marked={(0, free + i): colour for i in range(len(items))})

    def timeline(
        self,
        x: float,
        y: float,
        width: float,
        lanes: Mapping[str, Sequence[tuple[float, float, object, str]]],
        *,
        unit: str = "time",
        end: float | None = None,
        lane: float = 34,
    ) -> Place:
        """Bars in lanes, as an executor runs them; the lanes' names stand left of `x`.

        Args:
            lanes: {name: [(start, end, label, colour)]}.
            unit: the label of the time's axis. end: the end of the axis; default: that of the last bar.
            lane: height of a lane.
        """
        last = max((bar[1] for bars in lanes.values() for bar in bars), default=1) if end is None else end
        if not last > 0:
            raise CtrlabError(f"A timeline begins at 0 and ends after it; this one ends at {last:g}.")
        scale, bottom = width / last, y + lane * len(lanes)
        for number, (name, bars) in enumerate(lanes.items()):
            top = y + number * lane
            self.text(x - 10, top + lane / 2, name, anchor="end")
            for begin, stop, label, colour in bars:
                self.box(x + begin * scale, top + 3, (stop - begin) * scale, lane - 6, label, colour=colour)
        self._axis((x, bottom + 6), (x + width + 12, bottom + 6))
        self.text(x + width, bottom + 21, unit, anchor="end", size=SMALL, faint=True)
        return Place(x, y, width, bottom - y)

    def plot(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        series: Mapping[str, Sequence[Point]],
        *,
        axes: tuple[str, str],
        joined=True,
    ) -> Place:
        """A small plot without numbers on its axes: curves, or the single points of each series.

        Args:
            series: {name: [(x, y)]}; the name is written at the last point.
            axes: the titles of the horizontal and the vertical axis.
        """
        if not min(map(len, series.values()), default=0):
            raise CtrlabError("A plot has a series at least, and each of them a point.")
        xs, ys = zip(*(point for points in series.values() for point in points))
        spans = [(low, (max(values) - low) or 1) for values, low in ((xs, min(xs)), (ys, min(ys)))]
        (left, across), (low, up) = spans
        for number, (name, points) in enumerate(series.items()):
            colour = PALETTE[number % len(PALETTE)]
            shown = [(x + (px - left) / across * width, y + height - (py - low) / up * height) for px, py in points]
            if joined:
                self._line(shown, colour=colour, thick=2.5)
            else:
                for px, py in shown:
                    self._add(f'<circle cx="{px:g}" cy="{py:g}" r="4" fill="{colour}"/>')
            self.text(shown[-1][0] + 8, shown[-1][1], name, anchor="start", size=SMALL)
        corner = (x - 8, y + height + 8)
        self._axis(corner, (x + width + 8, corner[1]))
        self._axis(corner, (corner[0], y - 8))
        self.text(x + width, corner[1] + 13, axes[0], anchor="end", size=SMALL, faint=True)
        self.text(corner[0], y - 18, axes[1], anchor="start", size=SMALL, faint=True)
        return Place(x, y, width, height)

    @staticmethod
    def _tint(colour: str) -> str:
        if colour not in ("", GREY, *PALETTE):
            raise CtrlabError(f"A colour of a figure is GREY or one of the palette's, such as BLUE; {colour!r} was given.")
        return colour or "currentColor"

    def _add(self, part: str) -> None:
        if odd := _NOT_FINITE.search(part):
            raise CtrlabError(f"The numbers of a figure are finite; {self.title!r} came to {odd[0]}.")
        self._parts.append(part)

    def _cell(self, place: Place, value: object, colour: str) -> None:
        padding = str(value) == PAD  # not a NumPy value's own comparison, which gives no bool
        self._rectangle(*place, colour=colour, dashed=padding, radius=0)
        self.text(*place.centre, value, size=FONT - 1, code=True, faint=padding)

    def _rectangle(self, x, y, width, height, *, colour: str, dashed: bool, radius: int) -> None:
        fill = f'fill="{self._tint(colour)}" fill-opacity="0.28"' if colour else 'fill="none"'
        stroke = f'stroke="{self._tint(colour)}" stroke-opacity="{1 if colour else AXIS:g}"' + ' stroke-dasharray="3 3"' * dashed
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._add(f'<rect {size} rx="{radius}" {fill} {stroke} stroke-width="1.2"/>')

    def _line(self, points: Sequence[Point], *, colour="", dashed=False, opacity=1.0, thick=1.5) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        look = f'stroke-opacity="{opacity:g}" stroke-width="{thick:g}"' + ' stroke-dasharray="5 4"' * dashed
        self._add(f'<polyline points="{path}" fill="none" stroke="{self._tint(colour)}" {look}/>')

    def _axis(self, start: Point, end: Point) -> None:
        self._line([start, end], opacity=AXIS, thick=1)
        self._head(start, end, "", size=6, opacity=AXIS)

    def _head(self, before: Point, tip: Point, colour: str, size: float = 8, opacity: float = 1.0) -> None:
        across, down = tip[0] - before[0], tip[1] - before[1]
        length = (across**2 + down**2) ** 0.5 or 1
        u, v = size * across / length, size * down / length
        corners = [tip, (tip[0] - u - v / 2, tip[1] - v + u / 2), (tip[0] - u + v / 2, tip[1] - v - u / 2)]
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in corners)
        self._add(f'<polygon points="{path}" fill="{self._tint(colour)}" fill-opacity="{opacity:g}"/>')


__all__ = ["BLUE", "GREEN", "GREY", "OLIVE", "ORANGE", "PAD", "PINK", "RED", "SKY", "Figure", "Grid", "Place", "Point"]
