"""The chart that is updated while a cell runs.

The browser draws a plotly FigureWidget while the kernel is busy, if it is updated in batches. It does not redraw a bare figure
that is sent through a display handle: JupyterLab stays at its first frame. A widget's state contains megabytes of script. So each
chart has one widget, and a static figure replaces it when the run ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import decimate, logarithmic, shell

SECONDS_BETWEEN_UPDATES = 0.2
DASHES = ("solid", "dash", "dot", "dashdot")


class LiveChart:
    """Curves that grow during a measurement. Outside a notebook the object only keeps the history.

    Args:
        title, y, x: title and axis labels, with units.
        note: a line under the title.
        log: a logarithmic y axis.
        clock: returns seconds.
    Attributes:
        history: {series: (x values, y values)}, all points that were added.

    >>> with LiveChart("Training", "loss") as chart:
    ...     chart.add("stock", 1, 0.69)
    >>> chart.history
    {'stock': ([1], [0.69])}
    """

    def __init__(
        self,
        title: str,
        y: str,
        *,
        x: str = "step",
        note: str = "",
        log: bool = False,
        device: str = "",
        clock: Callable[[], float] = time.monotonic,
    ):
        self.history: dict[str, tuple[list[float], list[float]]] = {}
        self.updates = 0
        self._layout = shell(title, x=x, y=logarithmic(y) if log else y, note=note, device=device)
        if log:  # with an explicit format: plotly would label both 0.02 and 20 as 2
            self._layout["yaxis"] |= {"type": "log", "tickformat": "~g", "dtick": "D2"}  # labels at 1, 2 and 5
        self._layout["showlegend"] = True
        self._clock, self._drawn_at = clock, float("-inf")
        self._widget = self._handle = None
        self._closed = False

    def add(self, series: str, x: float, y: float) -> None:
        """Adds a point; the chart is redrawn at most five times per second.

        Raises:
            CtrlabError: the chart was closed.
        """
        if self._closed:
            raise CtrlabError("A chart that was closed takes no more points; make a new LiveChart.")
        xs, ys = self.history.setdefault(series, ([], []))
        xs.append(x)
        ys.append(y)
        if self._clock() - self._drawn_at >= SECONDS_BETWEEN_UPDATES:
            self._draw()
            self._drawn_at = self._clock()

    def figure(self) -> go.Figure:
        """All points so far, as a static figure."""
        return go.Figure(data=[self._trace(name) for name in self.history], layout=self._layout)

    def close(self) -> None:
        """Ends the chart and replaces the widget by a static figure. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._handle is not None:
            # A raw bundle: a figure object would be displayed below the widget, not in its place.
            self._handle.update({"application/vnd.plotly.v1+json": self.figure().to_plotly_json()}, raw=True)
            self._widget.close()
        elif self.history and in_notebook():
            _display(self.figure())

    def __enter__(self) -> LiveChart:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _draw(self) -> None:
        if self._widget is None and not self._open():
            return
        with self._widget.batch_update():
            shown = {trace.name: trace for trace in self._widget.data}
            for name in self.history:
                if name in shown:
                    shown[name].x, shown[name].y = decimate(*self.history[name])
                else:
                    self._widget.add_trace(self._trace(name))
        self.updates += 1

    def _open(self) -> bool:
        """Displays the widget in the running cell's output; returns False outside a notebook."""
        if not in_notebook():
            return False
        self._widget = go.FigureWidget(layout=self._layout)
        self._handle = _display(self._widget)
        return True

    def _trace(self, name: str) -> go.Scatter:
        x, y = decimate(*self.history[name])
        place = list(self.history).index(name)  # equal curves overlap, so later ones are dashed and thinner
        line = {"color": colours.of_names(self.history)[name], "width": 2 if place else 3.5}
        return go.Scatter(x=x, y=y, name=name, mode="lines", line=line | {"dash": DASHES[place % len(DASHES)]})


def _display(shown):
    from IPython.display import display

    return display(shown, display_id=True)


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel (and not in a terminal, a test or a script)."""
    ipython = sys.modules.get("IPython")
    shell_ = ipython.get_ipython() if ipython else None
    return shell_ is not None and hasattr(shell_, "kernel")
