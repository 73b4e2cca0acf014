"""What stands behind a lesson: its start, its checks, predictions and verdicts; and what builds and opens the workbook."""

from ctrlab.errors import CtrlabError

try:
    import nbformat  # noqa: F401
except ModuleNotFoundError:
    raise CtrlabError("Lessons need nbformat, which comes with the workbook: pip install 'ctrlab[lab]'.") from None

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.session import Lab, start

__all__ = ["CheckFailed", "Lab", "start"]
