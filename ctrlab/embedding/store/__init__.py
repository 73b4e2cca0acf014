"""The on-disk store of rows, independent of tables: `Store`, and `segments`, which reads its files with NumPy alone."""

from ctrlab.lazy import loader

COMPACTIONS = ("async", "sync")
"""Where compaction runs: in the store's own thread, or in the thread that writes."""

_PLACES = dict.fromkeys(("Store", "StoreStats"), "native")
__all__ = ["COMPACTIONS", *sorted(_PLACES)]
__getattr__ = loader(__name__, _PLACES)
