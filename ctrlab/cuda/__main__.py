"""`python -m ctrlab.cuda`: checks every twin against float64, then times it against torch and the GPU's own ceilings."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from ctrlab import cuda
from ctrlab.cuda import devices
from ctrlab.cuda.library import Library
from ctrlab.cuda.measure import OPS_TOLERANCE, distance, time_case
from ctrlab.errors import CtrlabError
from ctrlab.paths import write_atomically

MODULES = {m.name: import_module(f"{cuda.__name__}.{m.name}") for m in pkgutil.iter_modules(cuda.__path__) if m.name[0] != "_"}
OPS = {name: module for name, module in MODULES.items() if hasattr(module, "CASES")}


def check(device: devices.Device, library: Library, seeds: int) -> int:
    """Runs every small case with inputs from several seeds.

    Returns:
        The number of results that were compared with float64.
    Raises:
        CtrlabError: a result differs.
    """
    checked = 0
    for op, module in OPS.items():
        for name, sizes in module.CASES.items():
            for seed in range(seeds) if sizes["small"] else ():
                case = module.case(device, library, np.random.default_rng(seed), **sizes)
                results = case.run()
                device.synchronize()
                for result, expected in case.expected.items():
                    yardstick = case.expected[case.yardsticks.get(result, result)]
                    gap = distance(expected, device.get(results[result]), yardstick)
                    if not gap <= OPS_TOLERANCE:
                        raise CtrlabError(
                            f"A twin must agree with float64 to {OPS_TOLERANCE:g}; {op}, case {name!r}, seed {seed}: {result} is "
                            f"off by {gap:.3g}."
                        )
                    checked += 1
    return checked


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ctrlab.cuda", description=__doc__)
    parser.add_argument("--emulated", action="store_true", help="on threads of this machine: logic only, no times")
    parser.add_argument("--sanitizer", default="", help="of the emulation, e.g. address,undefined or thread")
    parser.add_argument("--seeds", type=int, default=2, help="of each small case's inputs")
    parser.add_argument("--out", type=Path, help="write the measurements to this JSON file")
    asked = parser.parse_args(arguments)
    try:
        device = devices.Emulated() if asked.emulated else devices.gpu()
        library = Library(emulated=asked.emulated, sanitizer=asked.sanitizer)
        print(f"{check(device, library, asked.seeds)} results agree with float64 ({device.name})")
        if asked.emulated:
            return 0
        rows = [
            time_case(op, name, module.case(device, library, np.random.default_rng(0), **sizes), device)
            for op, module in OPS.items()
            for name, sizes in module.CASES.items()
            if not sizes["small"]
        ]
    except CtrlabError as problem:
        print(problem, file=sys.stderr)
        return 1
    for row in rows:
        print(row)
    if asked.out:
        write_atomically(asked.out, json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
