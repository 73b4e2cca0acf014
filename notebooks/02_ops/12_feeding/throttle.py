"""Simulates slow storage: reads a file at a limited number of bytes per second, like a network with a share per stream."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.profiling.timing import now

BLOCK_BYTES = 1 << 14


def slow_blocks(path: str | os.PathLike, bytes_per_second: float) -> Iterator[bytes]:
    """A file's bytes in order, each delayed to the time at which the slow storage would deliver it."""
    start, sent = now(), 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            sent += len(block)
            time.sleep(max(0.0, start + sent / bytes_per_second - now()))
            yield block


@tf.autograph.experimental.do_not_convert
def slow_lines(path: str | tf.Tensor, bytes_per_second: float) -> tf.data.Dataset:
    """The lines of a text file, string [], like TextLineDataset, read at `bytes_per_second`.

    >>> slow_lines("train.csv", 4e6).batch(512)     # doctest: +SKIP
    """
    if not bytes_per_second > 0:
        raise CtrlabError(f"Storage must give more than 0 bytes per second; received {bytes_per_second}.")

    def blocks(name: bytes) -> Iterator[list[bytes]]:
        rest = b""
        for block in slow_blocks(name.decode(), bytes_per_second):
            *lines, rest = (rest + block.replace(b"\r", b"")).split(b"\n")
            yield lines
        if rest:
            yield [rest]

    signature = tf.TensorSpec([None], tf.string)
    return tf.data.Dataset.from_generator(blocks, args=(path,), output_signature=signature).unbatch()
