"""An engine of many processes: Ray converts and generates the blocks of a data set."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ctrlab.data.engine import Engine
from ctrlab.data.ray_cluster import cluster
from ctrlab.errors import CtrlabError

AHEAD = 2
"""Blocks in work or waiting, per CPU."""
TRIES = 3
"""How often a block is tried if the process that works on it ends."""


@contextlib.contextmanager
def ray_engine() -> Iterator[Engine]:
    """A block with an engine for `convert`, `generate` and `prepare` that works in the processes of Ray.

    This process reads and writes the files; the others parse or make the rows. A block whose process is killed is done again by
    another one. The files are byte for byte those that one process writes.

    Raises:
        CtrlabError: as in `cluster`; the processes that worked on one block ended, one after the other.

    >>> with ray_engine() as engine:                                                         # doctest: +SKIP
    ...     convert("criteo", "train.txt.gz", "criteo.parquet", engine=engine)
    """
    with cluster() as cpus:
        yield functools.partial(_mapped, AHEAD * cpus)


def _mapped(most: int, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    import ray

    apply = ray.remote(num_cpus=1, max_retries=TRIES - 1)(_apply)
    # In a list, for an argument would be sent, and read, once for each block.
    shared, problems = [ray.put(function)], []
    started = (apply.remote(shared, item) for item in _until_a_problem(items, problems))
    waiting = collections.deque(itertools.islice(started, most))
    try:
        while waiting:
            result = _result(waiting.popleft())
            waiting.extend(itertools.islice(started, 1))
            yield result
    finally:
        for each in waiting:
            ray.cancel(each, force=True)
    if problems:
        raise problems[0]


def _until_a_problem(items: Iterable[Any], problems: list[Exception]) -> Iterator[Any]:
    """Yields the items. If `items` raises, the error is kept for later: the blocks before it come first, as with one process."""
    try:
        yield from items
    except Exception as problem:
        problems.append(problem)


def _result(reference) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
        raise CtrlabError(
            f"{TRIES} processes of Ray ended while they worked on one block, so another one will, too; the last: {error}"
        ) from None


_functions: dict[str, Callable] = {}
"""In a process of Ray: the function that it applies to blocks, under a key."""


def _apply(shared: list, item: Any) -> Any:
    import ray

    [reference] = shared
    if reference.hex() not in _functions:
        _functions.clear()
        _functions[reference.hex()] = ray.get(reference)
    return _functions[reference.hex()](item)
