"""The rows that a server has from a published version and its updates, read without the code that serves them."""

from pathlib import Path

import numpy as np

from ctrlab.models.tables import rows_of_all
from ctrlab.serving.record_file import records_in
from ctrlab.serving.weights import BEGIN, DENSE, END, HEAD, REMOVED, ROWS, RUN


class Rows:
    """The content after a version's file and updates, in their order.

    Args:
        bundled: the `Bundled` of the whole model, which says what tables and dense tensors there are.
    Attributes:
        step: of the last file.
        fixed: float32 [V, D] each; growing: {key: float32 [D]} each.
        removed: how many rows of `growing` have gone.
        dense: the bytes of each tensor.
    """

    def __init__(self, bundled, *files: Path):
        self.fixed = [np.full((rows_of_all(t), t.shape[1]), np.nan, np.float32) for t in bundled.tables]
        self._dims, self._counted = [t.dim for t in bundled.growing], [bool(limit) for limit in bundled.limits]
        self.growing, self.removed = [{} for _ in bundled.growing], 0
        self._tensors = len(bundled.trace.dense)
        for number, file in enumerate(files):
            self._take(number, file)

    def _take(self, update: int, file: Path) -> None:
        texts = [b""] * self._tensors
        records = list(records_in(file))
        assert HEAD.unpack_from(records[0])[0] == BEGIN and HEAD.unpack_from(records[-1])[0] == END
        _, _, number, self.step = HEAD.unpack_from(records[0])
        assert number == update and HEAD.unpack_from(records[-1])[3] == len(records) - 1
        for record in records[1:-1]:
            kind, index, first, count = HEAD.unpack_from(record)
            data = np.frombuffer(record, np.uint8, offset=HEAD.size)
            if kind == DENSE:
                assert len(texts[index]) == first
                texts[index] += data.tobytes()
            elif kind == RUN:
                self.fixed[index][first : first + count] = data.view(np.float32).reshape(count, -1)
            elif index < len(self.fixed):
                assert kind == ROWS
                ids = data[: 8 * count].view(np.int64)
                self.fixed[index][ids] = data[8 * count :].view(np.float32).reshape(count, -1)
            else:
                self._grown(index - len(self.fixed), kind, data, count)
        self.dense = texts

    def _grown(self, table: int, kind: int, data: np.ndarray, count: int) -> None:
        keys, rows = data[: 8 * count].view(np.int64).tolist(), self.growing[table]
        if kind == REMOVED:
            for key in keys:
                self.removed += rows.pop(key, None) is not None
            return
        assert kind == ROWS
        values = data[8 * count * (1 + self._counted[table]) :].view(np.float32).reshape(count, self._dims[table])
        rows.update(zip(keys, values))
