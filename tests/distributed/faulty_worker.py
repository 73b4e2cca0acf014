"""The command `ctrlab`, with a fault on one worker: python faulty_worker.py FAULT WORKER ARGUMENT ...

disk      its disk is full for its part of the first update; then there is room, and from the save after the next update on it
          is full again (full_disk.py, whose library is preloaded)
memory    too little memory is left for the model
"""

import resource
import sys
from collections import Counter
from pathlib import Path

from ctrlab import cli
from ctrlab.distributed import Workers, given_place

sys.path.append(str(Path(__file__).parents[1] / "embedding"))
LEFT = 32 << 20


def disk() -> None:
    from full_disk import Disk

    from ctrlab.distributed.checkpoints import SharedCheckpoints
    from ctrlab.serving.shared_publishing import SharedPublisher

    its, found = Disk(), Counter()
    save, write = SharedCheckpoints.save, SharedPublisher._write_part

    def written(self, content) -> str:
        found["parts"] += 1
        if found["parts"] == 2:
            its.fill(self._parts, calls=0)
        problem = write(self, content)
        its.free()
        return problem

    def saved(self) -> None:
        found["saves"] += 1
        if found["saves"] > 1 and found["parts"] > 3:
            its.fill(self.folder, calls=1)
        save(self)

    SharedCheckpoints.save, SharedPublisher._write_part = saved, written


def memory() -> None:
    """A limit on the address space, once TensorFlow's threads run."""
    agree = Workers.agree

    def agreed(self, settings) -> None:
        agree(self, settings)
        Workers.agree = agree
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + LEFT
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    Workers.agree = agreed


if __name__ == "__main__":
    fault, worker, *sys.argv[1:] = sys.argv[1:]
    if given_place().index == int(worker):
        {"disk": disk, "memory": memory}[fault]()
    cli.main()
