"""Starts the workers of a training in the processes of Ray, and starts all of them again when one is lost."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place, threads_of
from ctrlab.errors import CtrlabError, WorkerLost
from ctrlab.ray_cluster import cluster

RETRIES = 3
PLACE_SECONDS = 300
"""For the cluster to have room for all workers."""
PRINT_SECONDS = 1.0
"""For Ray to print here what the workers said last."""

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def on_ray(count: int, work: Callable[[], Result], *, cpus: int | None = None, retries: int = RETRIES) -> Result:
    """Runs `work` in `count` processes of Ray that train together, and returns what it returns in the first.

    If a worker is lost, alone or with its machine, the others are ended and all start again. A run whose `Saving` has
    `resume=True` then goes on from the last save of all workers. A worker that fails otherwise ends them for good.

    Args:
        work: trains with the workers that `join()` gives it, in the folder of this process. It travels by pickle.
        cpus: of each worker; None: all CPUs of the cluster are shared out.
        retries: how often all start again.
    Raises:
        WorkerLost: workers were lost more often. CtrlabError: as of `work`; Ray is not installed, can't be reached or started, or
            has no room for the workers.

    >>> def work():
    ...     saving = Saving("run", every=1000, resume=True)
    ...     with Run(Spec("dlrm", "all", saving=saving), join()) as run:
    ...         run.train()
    ...         return run.evaluate()
    >>> on_ray(4, work)  # doctest: +SKIP
    """
    with cluster(max(count * (cpus or 1), os.cpu_count() or 1)):
        cpus = cpus or _part_of_each(count)
        for again in range(1, retries + 2):
            try:
                return _attempt(count, work, cpus)
            except WorkerLost as lost:
                if again > retries:
                    raise WorkerLost(f"Workers were lost in each of {again} tries; the last time: {lost}") from None
                log.warning("%s All workers start again, %d of at most %d times.", lost, again, retries)


def _part_of_each(count: int) -> int:
    """CPUs of a worker if as many go to each machine."""
    import ray

    machines = [node["Resources"]["CPU"] for node in ray.nodes() if node["Alive"] and "CPU" in node["Resources"]]
    return max(1, int(min(machines)) // -(-count // len(machines)))


def _attempt(count: int, work: Callable[[], Result], cpus: int) -> Result:
    import ray

    with _processes(count, cpus) as processes:
        addresses = tuple(_got(process.address.remote(), i) for i, process in enumerate(processes))
        shared = [ray.put(work)]  # in a list, so that it is loaded after the process knows its place
        started = [p.run.remote(Place(addresses, i), os.getcwd(), shared) for i, p in enumerate(processes)]
        waiting, found = started, {}
        while waiting:
            [done], waiting = ray.wait(waiting)
            found[done] = _got(done, started.index(done))
        return found[started[0]]


@contextlib.contextmanager
def _processes(count: int, cpus: int) -> Iterator[list]:
    """A block with so many actors. They are ended with it."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    room = placement_group([{"CPU": cpus}] * count)  # for all of them or none
    try:
        if not room.wait(PLACE_SECONDS):
            raise CtrlabError(f"Ray has no room for {count} workers of {cpus} CPUs each: start fewer or smaller ones.")
        worker = ray.remote(num_cpus=cpus)(_Worker)
        yield [
            worker.options(scheduling_strategy=PlacementGroupSchedulingStrategy(room, i)).remote(i, cpus) for i in range(count)
        ]
    finally:
        time.sleep(PRINT_SECONDS)
        remove_placement_group(room)  # ends them, too


class _Worker:
    """One process of Ray."""

    def __init__(self, index: int, cpus: int):
        self._index = index
        for name, threads in threads_of(cpus).items():
            os.environ.setdefault(name, threads)

    def __repr__(self) -> str:
        return f"worker {self._index}"  # Ray puts it before what the process prints

    def address(self) -> str:
        import ray

        return f"{ray.util.get_node_ip_address()}:{free_ports(1)[0]}"

    def run(self, place: Place, folder: str, shared: list) -> Any:
        import ray

        os.environ |= place.config()
        os.chdir(folder)
        [work] = ray.get(shared)
        return work()


def _got(reference, worker: int) -> Any:
    """What a worker returned.

    Raises:
        WorkerLost: it is gone, or says that another is. Exception: what it raised.
    """
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayActorError:
        raise WorkerLost(f"Worker {worker} has ended: Ray's logs may say why.") from None
