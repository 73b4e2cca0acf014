"""The store of rows on a disk, which knows no table: `Store`, and `segments`, which reads its files by NumPy alone."""

from ctrlab.lazy import loader

COMPACTIONS = ("async", "sync")
"""Who compacts a store: its own thread, or the thread that writes."""

_PLACES = dict.fromkeys(("Store", "StoreStats"), "native")
__all__ = ["COMPACTIONS", *sorted(_PLACES)]
__getattr__ = loader(__name__, _PLACES)
