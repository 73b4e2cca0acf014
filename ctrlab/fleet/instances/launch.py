"""Becomes the process of an instance. It gets the instance's CPUs, and a signal to stop when the process that began it ends for
any reason.

    python -I launch.py PID_OF_THE_FLEET CPUS COMMAND...        CPUS: such as 0,1; "": all

It imports nothing of this package, because the command that it becomes imports all of it again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: str, cpus: str, *command: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it ended before it could be watched
        sys.exit(1)
    if cpus:
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
