"""The lab's charts: static plotly figures, and one chart that is updated while a cell runs.

Every figure says what it shows, in which unit, and on which machine. A name has the same colour in all figures (colours.py).
"""

from ctrlab.profiling.charts.figures import breakdown, breakdowns, ladder, latency, loss_curves, waterfall
from ctrlab.profiling.charts.live import LiveChart
from ctrlab.profiling.charts.panels import panels
from ctrlab.profiling.charts.roof import roofline
from ctrlab.profiling.charts.surface import heat_map
from ctrlab.profiling.charts.tables import bins, what_if
from ctrlab.profiling.charts.waiting import waiting

__all__ = [
    "LiveChart",
    "bins",
    "breakdown",
    "breakdowns",
    "heat_map",
    "ladder",
    "latency",
    "loss_curves",
    "panels",
    "roofline",
    "waiting",
    "waterfall",
    "what_if",
]
