"""onnxruntime's worker without onnxruntime: `fake_onnx.py HOW` answers one half to every row, as HOW says.

quick       a call takes next to nothing
other       its answers are others
fewer       it answers one row of each request
picky       it answers no first request
refusing    the graph does not convert
dying       it ends when asked to run
"""

import os
import sys

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.profiling.processes import serve
from studies.peers import cases

HOW = sys.argv[1]


class Session:
    def __init__(self, version, requests, answers):
        assert os.path.exists(os.path.join(version, "saved_model.pb"))
        self.requests = {rows: cases.load(file) for rows, file in requests.items()}
        self.answers = answers

    def open(self):
        if HOW == "refusing":
            raise CtrlabError("tf2onnx can't convert it: Tensorflow op [x: Odd] is not supported")
        for rows, requests in self.requests.items():
            assert all(array.dtype in (np.int64, np.int32, np.float32) for each in requests for array in each.values())
            answer = np.full((1 if HOW == "fewer" else int(rows), 1), 0.6 if HOW == "other" else 0.5, np.float32)
            cases.save(self.answers[rows], [{"probabilities": answer} for _ in requests[HOW == "picky" :]])
        answered = {rows: list(range(len(requests)))[HOW == "picky" :] for rows, requests in self.requests.items()}
        return {"answered": answered, "notes": dict.fromkeys(answered, "fake"), "versions": "onnxruntime 0.0"}

    def run(self, rows, calls):
        if HOW == "dying":
            os._exit(3)
        assert str(rows) in self.requests
        assert calls == 5
        return {"seconds": 1e-6}


serve(Session)
