"""Records of `ctrlab bench quantized` as tables in Markdown: the rungs, and the AUC of fewer and fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.profiling.markdown import interval, number, signed, table
from ctrlab.profiling.timing import Interval
from studies.quantized.bench import BITS, EXACT, Found

QUALITY = ("model", "rows", "task", "rung", "AUC, 1/1000", "calibration, 1/1000", "largest difference, 1/1000")
COST = ("model", "rows", "rung", "weights, MB", "times smaller", "whole export, MB", "CPU us per request", "times less CPU")
CURVE = ("model", "rows", "task", "AUC in float32", *(f"{bits} bits" for bits in BITS), "AUC .001 lower at")


def tables(records: Sequence[Mapping]) -> str:
    found = [Found.from_json(each) for record in records for each in record["models"]]
    parts = {
        "AUC and calibration less those in float32": (QUALITY, _quality),
        "Sizes and CPU time": (COST, _cost),
        "AUC less that in float32, in 1/1000, with tables of fewer and fewer bits": (CURVE, _curve),
    }
    return "\n\n".join(
        f"{said}:\n\n{table(headings, [line for each in found for line in lines(each)])}"
        for said, (headings, lines) in parts.items()
    )


def _names(found: Found) -> list[str]:
    return [found.model, f"{found.data_set}, {found.source}"]


def _quality(found: Found) -> list[list[str]]:
    return [
        [
            *_names(found),
            task,
            rung,
            *(interval(found.apart(metric, rung, task), 1e3, signed) for metric in ("auc", "calibration")),
            signed(1e3 * each.largest),
        ]
        for task in found.auc
        for rung, each in found.rungs.items()
        if rung != EXACT
    ]


def _cost(found: Found) -> list[list[str]]:
    exact = found.rungs[EXACT].weights_bytes
    return [
        [
            *_names(found),
            rung,
            number(each.weights_bytes / 1e6),
            "" if rung == EXACT else number(exact / each.weights_bytes),
            number(each.total_bytes / 1e6),
            number(1e6 * Interval.of(each.cpu).median),
            "" if rung == EXACT else interval(found.less_cpu(rung)),
        ]
        for rung, each in found.rungs.items()
    ]


def _curve(found: Found) -> list[list[str]]:
    lines = []
    for task, area in found.auc.items():
        of_bits = dict(zip(found.bits, found.auc_of_bits[task]))
        falls = found.falls_at(task)
        differences = [signed(1e3 * (of_bits[bits] - area)) for bits in BITS]
        lines.append([*_names(found), task, f"{area:.4f}", *differences, f"{falls} bits" if falls else "none of these"])
    return lines
