"""oneDNN's side: its GRU and AUGRU primitives, in the program in `native/bench`. It runs in our own environment."""

from __future__ import annotations

import os

import numpy as np

from ctrlab.ops.benches import onednn
from studies.peers import cases
from studies.peers.cases import Batch, Case
from studies.peers.session import Running, serve_cases


def prepare_gru(case: Case, batches: list[Batch], threads: int) -> Running:
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for the program that is started next
    weights, attended = cases.gru_weights(case), case.kind == "augru"

    def start() -> onednn.Gru:
        first = batches[0]
        return onednn.Gru(first["x"], *weights, first["attention"] if attended else None, first["d_out"])

    def outputs() -> dict[str, np.ndarray]:
        once = start()
        once()
        # The AUGRU's gradient does not belong to its forward pass (tests/ops/test_gru_onednn.py), so only outputs are compared.
        names = ("out",) if attended else ("out", "d_x", "d_gates", "d_gates_bias", "d_candidate", "d_candidate_bias")
        return {name: np.ravel(array) for name, array in zip(names, once.close())}

    running = start()
    note = "one batch, always the same" + (", and a gradient that is not the AUGRU's" if attended else "")
    return Running(lambda i: running(), "oneDNN", outputs, note)


if __name__ == "__main__":
    serve_cases({"gru": prepare_gru, "augru": prepare_gru})
