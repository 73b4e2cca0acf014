"""A worker of `test_workers_publish`: trains, saves and publishes as a list of actions says, each [name, argument, ...].

    python publish_worker.py FOLDER ACTIONS     saves are in FOLDER/<step>, versions in FOLDER/ctr

What it prints at the end: the optimizer's step and the versions and updates so far, after each publication; and each problem.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

from ctrlab.distributed import join
from ctrlab.errors import CtrlabError

MODEL, STEPS_TO_LIVE = "deepfm", 2


def embedding() -> dict:
    """Most tables have a fixed number of rows; of one they come and go, of one they wait to be admitted."""
    from ctrlab.embedding.choices import Variable
    from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, Options

    rules = {"user_id": {"eviction": GlobalStepEviction(STEPS_TO_LIVE)}, "item_id": {"admission": CounterFilter(2)}}
    return {table: Variable(Options(**options)) for table, options in rules.items()}


class Worker:
    def __init__(self, folder: Path, workers, run):
        from ctrlab import data
        from ctrlab.serving.shared_publishing import SharedPublisher
        from ctrlab.serving.warm_up import rows_of

        self.folder, self.workers, self.run, self.said = folder, workers, run, []
        rows = rows_of(data.prepare("food_delivery", profile="tiny").read_test(5))
        new = (workers, folder / "ctr", run.model, run.optimizer)
        self.publisher = SharedPublisher(*new, rows=rows, every=1e6, memory_rows=50)

    def train(self, steps: int) -> None:
        self.run.train(steps)

    def save(self) -> None:
        """Before a publication of the same step, for it evicts."""
        step = int(self.run.optimizer.iterations)
        with self.workers.checkpoints(self.folder / str(step), self.run.model, self.run.optimizer) as saver:
            saver.save()

    def publish(self) -> None:
        self.publisher.publish()
        self.publisher.wait()
        self._note()

    def tidy(self) -> None:
        """Somebody deletes the hidden folder in which the workers meet."""
        if self.workers.first:
            for folder in (self.folder / "ctr").glob(".parts-*"):
                shutil.rmtree(folder)

    def _note(self) -> None:
        found = self.publisher.published
        self.said.append([int(self.run.optimizer.iterations), found.versions, found.updates])
        if problem := self.publisher._failed:
            self.said.append(str(problem))

    def fill(self, worker: int, room: int) -> None:
        """No file of a worker may take more bytes than these: a quota."""
        if self.workers.shard.index == worker:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def free(self, worker: int) -> None:
        self.fill(worker, resource.getrlimit(resource.RLIMIT_FSIZE)[1])

    def forget(self, worker: int) -> None:
        """A table of a worker no longer knows what changed."""
        if self.workers.shard.index == worker:
            table = next(iter(self.run.model.embedding.growing.values()))
            table.load_state(table.state())

    def by_the_clock(self, seconds: float, updates: int) -> None:
        self.publisher.every, self.publisher._due = seconds, time.monotonic()
        while int(self.workers.told(str(self.publisher.published.updates))[0]) < updates:
            self.run.train(8, on_step=self.publisher)
        self.publisher.wait()
        self.publisher.every = self.publisher._due = 1e9

    def long_before_the_next(self, steps: int) -> None:
        """Looks become rare."""
        looks, look = [], self.publisher._look
        self.publisher._look = lambda: looks.append(look())
        self.run.train(steps, on_step=self.publisher)
        self.said.append(f"{len(looks)} looks")

    def die(self, worker: int) -> None:
        """Killed in the middle of its part."""
        if self.workers.shard.index != worker:
            return

        def dies(path, *_) -> None:
            path.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        sys.modules["ctrlab.serving.publishing"].write_update = dies


def main(folder: Path, actions: list) -> None:
    workers = join()
    from ctrlab.training import Run, Spec

    spec = Spec(MODEL, "all", profile="tiny", embedding=embedding(), epochs=-1)
    with Run(spec, workers) as run:
        worker = Worker(folder, workers, run)
        with worker.publisher:
            for name, *arguments in actions:
                getattr(worker, name)(*arguments)
        worker._note()
    print(json.dumps(worker.said))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), json.loads(sys.argv[2]))
    except CtrlabError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        sys.exit(1)
