"""Starts the workers of a training in the processes of Ray, and starts all of them again when one is lost."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ctrlab.data.ray_cluster import cluster
from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place, threads_of
from ctrlab.errors import CtrlabError, WorkerLost

RETRIES = 3
PLACE_SECONDS = 300
"""Seconds within which the cluster must have room for all workers."""
PRINT_SECONDS = 1.0
"""Seconds that Ray gets to print the workers' last output here."""

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def on_ray(count: int, work: Callable[[], Result], *, cpus: int | None = None, retries: int = RETRIES) -> Result:
    """Runs `work` in `count` processes of Ray that train together, and returns the result of the first.

    If a worker is lost, alone or with its machine, the others are ended and all start again. A run whose `Saving` has
    `resume=True` then continues from the last save of all workers. Any other failure of a worker ends all of them.

    Args:
        work: trains with the workers that `join()` gives it, in the folder of this process. It is sent by pickle.
        cpus: CPUs per worker; None: all CPUs of the cluster are divided.
        retries: how often all workers may start again.
    Raises:
        WorkerLost: workers were lost more often. CtrlabError: as in `work`; Ray is not installed, can't be reached or started, or
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
    """CPUs per worker if each machine gets the same number of workers."""
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
    """A context with this number of actors, which end with it."""
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
    """A worker in a process of Ray."""

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
    """Waits for the result of a worker.

    Raises:
        WorkerLost: the worker has ended, or reports that another has. Exception: as raised by the worker.
    """
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayActorError:
        raise WorkerLost(f"Worker {worker} has ended: Ray's logs may say why.") from None
