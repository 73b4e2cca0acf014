"""The log of a running server: refusals are grouped, one line of JSON per group."""

import json
import logging
import subprocess
import sys
import threading

from ctrlab.server.logs import Refusals


def test_refusals_of_a_kind_are_one_line_with_their_number(caplog):
    refusals = Refusals()

    def add(thread):
        for n in range(200):
            refusals.add("ctr", "invalid", f"100 % odd {n}", f"{thread}-{n}")

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(5)]
    with caplog.at_level(logging.INFO, "ctrlab.server.logs"):
        for thread in threads:
            thread.start()
        for thread in threads:
            refusals.tell()
            thread.join()
        refusals.add("", "unauthorized", "No token." + "x" * 20_000)
        refusals.tell()
        refusals.tell()
    told = [(record.model, record.why, record.times) for record in caplog.records]
    assert sum(times for model, _, times in told if model == "ctr") == 1000
    assert told[-1] == ("", "unauthorized", 1) and len(told) <= 7
    assert all(record.getMessage().startswith(("100 % odd", "No token.")) for record in caplog.records)
    assert max(len(record.getMessage()) for record in caplog.records) <= 1000


def test_each_record_is_a_line_of_json(tmp_path):
    code = """
import logging
from ctrlab.server.logs import Refusals, write_json_lines
write_json_lines()
refusals = Refusals()
refusals.add("ctr", "invalid", 'two\\nlines, "quoted"', "id-1")
refusals.tell()
logging.getLogger("another").info("not told")
logging.getLogger("grpc._cython.cygrpc").error("a client has left")
logging.getLogger("uvicorn.error").error("odd bytes")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("another").exception("odd")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    first, second = map(json.loads, ran.stderr.splitlines())
    assert first["message"] == 'two\nlines, "quoted"' and (first["model"], first["why"], first["times"]) == ("ctr", "invalid", 1)
    assert (first["request"], first["level"]) == ("id-1", "INFO") and first["time"].endswith("+00:00")
    assert "ZeroDivisionError" in second["exc_info"] and second["level"] == "ERROR"
