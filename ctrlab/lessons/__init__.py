"""The code behind lessons: start, checks, predictions and verdicts; and the tools that build and open the workbook."""

from ctrlab.lazy import loader

_PLACES = {"CheckFailed": "check", **dict.fromkeys(("Lab", "start"), "session")}
__all__ = sorted(_PLACES)
__getattr__ = loader(__name__, _PLACES)  # the doctor runs where the workbook is not installed
