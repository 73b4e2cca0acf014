"""A worker of `test_runs`: trains as a JSON object says, and writes what it has.

{"spec": arguments of Spec, "saving": arguments of Saving, "steps": how many, or null for all; "dump": a folder, "rows": a file}
"""

import json
import sys
from pathlib import Path

import numpy as np
from equal_steps import flat

from ctrlab.distributed import Workers, given_place, join
from ctrlab.errors import CtrlabError


def main(told: dict) -> None:
    workers = Workers(given_place(), start_seconds=told["start_seconds"]) if "start_seconds" in told else join()
    from ctrlab.training import Run, Saving, Spec, get_state

    changed = told.get("of_worker", {}).get(str(workers.shard.index), {})
    folder = changed.pop("folder", told.get("saving", {}).pop("folder", None))
    saving = Saving(Path(folder), **told["saving"]) if folder else None
    losses = []
    with Run(Spec(**told["spec"] | changed, saving=saving), workers) as run:
        restored, last = run.position, run.checkpoints and run.checkpoints.restored
        if told.get("steps") != 0:
            losses = run.train(told.get("steps")).losses
        found = run.evaluate() if told.get("evaluate") else None
        if "dump" in told:
            state = flat(get_state(run.model, run.optimizer))
            np.savez(Path(told["dump"]) / f"{workers.shard.index}-of-{workers.shard.count}.npz", **state)
    auc = found and found.auc | {"rows": found.rows}
    said = {"passed over": last.passed_over, "lost": last.lost} if last else {}
    print(json.dumps({"restored": restored, "position": run.position, "losses": losses, "auc": auc} | said))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except CtrlabError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        sys.exit(1)
