"""What stands behind a lesson: its start, its checks, predictions and verdicts; and what builds and opens the workbook."""

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.session import Lab, start

__all__ = ["CheckFailed", "Lab", "start"]
