"""A peer without a library: `fake_peer.py NAME HOW...` answers as HOW says.

quick, slow      a step sleeps 1 ms, 5 ms
other            its outputs are not the others'
broken           one of its outputs is nan
unlike           it has no outputs to compare
lacking          it refuses to begin
dying            it ends when asked for a block
"""

import os
import sys
import time

import numpy as np

from ctrlab.errors import CtrlabError
from studies.peers.session import Running, serve_cases

NAME, *HOW = sys.argv[1:]


def prepare(case, batches, threads):
    if "lacking" in HOW:
        raise CtrlabError("It needs what is not here.")
    asked = []

    def step(i):
        asked.append(i)
        if "dying" in HOW and len(asked) > 5:
            os._exit(3)
        assert set(batches[i]) == {"ids", "d_out"}
        time.sleep(5e-3 if "slow" in HOW else 1e-3)

    def outputs():
        if "unlike" in HOW:
            return {}
        total = sum(float(batch["ids"].sum()) for batch in batches)
        first = np.nan if "broken" in HOW else threads + ("other" in HOW)
        return {"ids": np.array([total]), "job": np.array([first, case.batch])}

    work = {"flops": 1e6, "bytes": 0.0, "random_rows": 0.0, "row_bytes": 64.0} if NAME == "ctrlab" else None
    return Running(step, f"{NAME} 1.0", outputs, note="fake" if NAME != "ctrlab" else "", work=work)


serve_cases(dict.fromkeys(("lookup", "lookup_alone"), prepare))
