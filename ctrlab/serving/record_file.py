"""TFRecord files whose errors are OSErrors, as those of other files."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

ERRORS = {
    tf.errors.ResourceExhaustedError: errno.ENOSPC,
    tf.errors.PermissionDeniedError: errno.EACCES,  # or a disk that can only be read
    tf.errors.NotFoundError: errno.ENOENT,
}
"""The system's error number for each of TensorFlow's errors."""


@contextlib.contextmanager
def record_file(path: Path) -> Iterator[tf.io.TFRecordWriter]:
    """A writer of a new file, which is closed at the end of the block.

    Raises:
        OSError: the disk refused.
    """
    with _refusals(path), tf.io.TFRecordWriter(str(path)) as file:
        yield file
        file.flush()


def records_in(path: Path) -> Iterator[bytes]:
    """The records of a file, read one after the other.

    Raises:
        OSError: the disk refused, or the file is damaged.
    """
    with _refusals(path):
        yield from tf.data.TFRecordDataset(str(path)).as_numpy_iterator()


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as refused:
        number = next((number for kind, number in ERRORS.items() if isinstance(refused, kind)), errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from None
