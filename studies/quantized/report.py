"""The results of `ctrlab bench quantized` as tables: the rungs, and the AUC with fewer and fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.profiling.markdown import interval, number, signed
from ctrlab.profiling.report import Part, Report
from ctrlab.profiling.timing import Interval
from studies.quantized.bench import BITS, EXACT, FALL, QuantizedModel

QUALITY = ("model", "rows", "task", "rung", "AUC, 1/1000", "calibration, 1/1000", "largest difference, 1/1000")
COST = ("model", "rows", "rung", "weights, MB", "times smaller", "whole export, MB", "CPU us per request", "times less CPU")
CURVE = ("model", "rows", "task", "AUC in float32", *(f"{bits} bits" for bits in BITS), "AUC .001 lower at")


def tables(records: Sequence[Mapping]) -> str:
    return report([QuantizedModel.from_json(each) for record in records for each in record["models"]]).markdown()


def report(found: Sequence[QuantizedModel]) -> Report:
    parts = {
        "AUC and calibration less those in float32": (QUALITY, _quality, 4),
        "Sizes and CPU time": (COST, _cost, 3),
        "AUC less that in float32, in 1/1000, with tables of fewer and fewer bits": (CURVE, _curve, 3),
    }
    return Report(
        [
            Part.of(said, headings, (line for each in found for line in lines(each)), words=words, kinds=1)
            for said, (headings, lines, words) in parts.items()
        ],
        [_said(each, task) for each in found for task in each.auc],
    )


def _said(found: QuantizedModel, task: str) -> str:
    """A sentence on the number of bits at which the AUC falls."""
    bits = found.falls_at(task)
    falls = f"{bits} bits" if bits else f"none of {found.bits[0]} to {found.bits[-1]} bits"
    area = f"AUC {found.auc[task]:.4f} on {found.rows:,} rows of {found.data_set}"
    return f"{found.model}, {task}: {area}; {FALL:g} less at {falls}"


def _names(found: QuantizedModel) -> list[str]:
    return [found.model, f"{found.data_set}, {found.source}"]


def _quality(found: QuantizedModel) -> list[list[str]]:
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


def _cost(found: QuantizedModel) -> list[list[str]]:
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


def _curve(found: QuantizedModel) -> list[list[str]]:
    lines = []
    for task, area in found.auc.items():
        of_bits = dict(zip(found.bits, found.auc_of_bits[task]))
        falls = found.falls_at(task)
        differences = [signed(1e3 * (of_bits[bits] - area)) for bits in BITS]
        lines.append([*_names(found), task, f"{area:.4f}", *differences, f"{falls} bits" if falls else "none of these"])
    return lines
