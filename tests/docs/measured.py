"""The tables of docs/serving_measured.md, read back and held against the records: each figure is computed anew from the JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

Lines = list[list[str]]
"""A table: its headings, then its rows."""


def wrong(text: str, records: Mapping[str, Sequence[Mapping]]) -> list[str]:
    """The differences between a page's tables and the records."""
    found = []
    for name, of in records.items():
        there, right = tables_in(text, name), EXPECTED[name](of)
        if len(there) != len(right):
            found.append(f"{name}: {len(there)} tables, not {len(right)}")
        for number, (received, expected) in enumerate(zip(there, right), 1):
            found += [f"{name}, table {number}: {line}" for line in _differences(received, expected)]
        for machine in {record["machine"] for record in of}:
            if machine not in _place(text, name):
                found.append(f"{name}: {machine} is not named")
    return found


def tables_in(text: str, name: str) -> list[Lines]:
    """The tables between the marks of this name."""
    found: list[Lines] = [[]]
    for line in _place(text, name).splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[table[0], *table[2:]] for table in found if table]


def _place(text: str, name: str) -> str:
    [inner] = re.findall(rf"<!-- {name}:.*?-->\n(.*?)<!-- end of {name} -->", text, re.S)
    return inner


def _differences(received: Lines, expected: Lines) -> list[str]:
    if received[0] != expected[0] or len(received) != len(expected):
        return [f"headings {received[0]} and {len(received)} lines, not {expected[0]} and {len(expected)}"]
    pairs = [(expected[0][k], *pair) for ours, right in zip(received, expected) for k, pair in enumerate(zip(ours, right))]
    lengths = {len(line) for line in received}
    odd = [f"a row of {n} cells" for n in lengths - {len(expected[0])}]
    return odd + [f"{heading}: {ours!r}, not {right!r}" for heading, ours, right in pairs if ours != right]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def signed(value: float) -> str:
    return "0.00" if round(abs(value), 2) == 0 else f"{value:+.2f}"


def interval(samples: Sequence[float], shown=number) -> str:
    """The median and the order statistics within which it lies with 95 %."""
    ordered, n = np.sort(samples), len(samples)
    cuts = [k for k in range((n + 1) // 2) if 2 * stats.binom.cdf(k, n, 0.5) <= 0.05 + 1e-12]
    cut = max(cuts, default=0)
    figures = np.median(ordered), ordered[cut], ordered[n - 1 - cut]
    median, low, high = map(shown, figures)
    return f"{median} [{low}, {high}]"


def percent(value: float) -> str:
    return f"{round(100 * value):+d} %" if round(100 * value) else "0 %"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return interval([one / other for one, other in zip(ours, theirs)])


def serving(records: Sequence[Mapping]) -> list[Lines]:
    rows, found = [row for record in records for row in record["rows"]], []
    for count in sorted({row["rows"] for row in rows}):
        cpu = [["model", "side", "CPU us per request", "times less", "without a front, us", "times less than stock"]]
        most = [["model", "side", "limit, ms", "requests per s within it", "times the stock server's", "within 10 ms"]]
        for row in rows:
            if row["rows"] != count:
                continue
            same = {one["side"]: one for one in rows if (one["model"], one["rows"]) == (row["model"], count)}
            stock, bare = same["stock in Python"], same["stock, our processor"]
            times = ratios(stock["cpu"], row["cpu"]) if row is not stock else ""
            alone = number(1e6 * np.median(row["alone"])) if row["alone"] else ""
            less = ratios(bare["alone"], row["alone"]) if row["alone"] and row is not bare else ""
            cpu.append([row["model"], row["side"], number(1e6 * np.median(row["cpu"])), times, alone, less])
            if row["most"]:
                times = ratios(row["most"], stock["most"]) if row is not stock and min(stock["most"]) > 0 else ""
                limit = number(1e3 * row["limit"])
                most.append([row["model"], row["side"], limit, interval(row["most"]), times, interval(row["most_short"])])
        found += [cpu, *([most] if len(most) > 1 else [])]
    return found


def groups(records: Sequence[Mapping]) -> list[Lines]:
    bases = ["default", "tuned", "one pool", "caller's thread"]
    rates = [["model", "graph", "side", "requests per s", *(f"times {base}" for base in bases)]]
    p99 = [["light model", "heavy model", "graph", "threads", "alone, ms", "beside the heavy one, ms"]]
    p99[0] += ["heavy requests per s", "while versions change, ms"]
    pools = [["model", "graph", "threads", "CPU us per request", "the model says", "off"]]
    gains = [["model", "graph", *(f"{cores} cores" for cores in (16, 32, 64, 128))]]
    for record in records:
        model, graph, sides = record["model"], record["optimizations"], record["per_second"]
        for side, of in sides.items():
            intra, inter = record["tuning"]
            name = f"tuned ({intra} intra, {inter} inter)" if side == "tuned" else side
            known = bases[:2] if side in bases[:2] else bases
            times = [ratios(of, sides[base]) if base in known and base != side and base in sides else "" for base in bases]
            rates.append([f"{model}, {record['rows']} candidates", graph, name, interval(of), *times])
        for layout, of in record["beside"].items():
            times = [interval(1e3 * np.array(each)) for each in (record["alone"][layout], of, record["changing"][layout])]
            busy = interval(record["heavy_per_second"][layout])
            p99.append([record["light"], record["heavy"], graph, layout, *times[:2], busy, times[2]])
        medians = {n: float(np.median(of)) for n, of in zip(record["pools"]["threads"], record["pools"]["cpu"])}
        says = _fitted({n: medians[n] for n in (1, 2, 4, 16, 64)})
        for n, of in zip(record["pools"]["threads"], record["pools"]["cpu"]):
            off = percent(says(n) / medians[n] - 1) if n in (3, 8, 32) else "fitted"
            pools.append([model, graph, str(n), interval(1e6 * np.array(of)), number(1e6 * says(n)), off])
        gains.append([model, graph, *(percent(says(cores) / says(1) - 1) for cores in (16, 32, 64, 128))])
    return [rates, p99, pools, gains]


def _fitted(cpu: Mapping[int, float]):
    """The line up to the number of threads, above which it is flat, with the least relative error."""
    best = None
    for most in sorted(cpu)[1:]:
        x, y = np.minimum(list(cpu), most) - 1.0, np.array(list(cpu.values()))
        slope, start = np.polyfit(x, y, 1, w=1 / y)
        error = np.sum(((start + slope * x) / y - 1) ** 2)
        if best is None or error < best[0]:
            best = error, most, start, slope
    _, most, start, slope = best
    return lambda threads: start + slope * (min(threads, most) - 1)


def fleet(records: Sequence[Mapping]) -> list[Lines]:
    found = []
    for record in records:
        curves = [["model", "fixed, us", "per row, us", "after another model, us more", "after a rest, us more"]]
        curves[0].append("beside another, % more")
        for model, curve in record["curves"].items():
            micros = [number(1e6 * curve[name]) for name in ("fixed", "per_row", "cold", "idle")]
            curves.append([model, *micros, number(100 * curve["crowding"])])
        settings = [["cores", "busy", "model", "requests", "mean, ms", "mean simulated, ms", "mean off"]]
        settings[0] += ["p99, ms", "p99 simulated, ms", "p99 off"]
        for each in record["settings"]:
            line = [each["pools"], f"{100 * each['utilization']:.0f} %", each["model"], f"{each['requests']:,}"]
            for what in ("mean", "p99"):
                measured, simulated = each[f"measured_{what}"], each[f"simulated_{what}"]
                line += [number(1e3 * measured), number(1e3 * simulated), percent(simulated / measured - 1)]
            settings.append(line)
        carried = [["cores", "variants", "their work", "limit, times the mean", "crowding, times"]]
        carried[0] += ["split, %", "shared, %", "dedicated, %", "dedicated more than split", "dedicated more than shared"]
        for each in record["experiments"]:
            line = [str(record["cores"]), str(each["variants"]), f"{100 * each['share']:.0f} %"]
            line += [f"{each['patience']:g}", f"{each['crowding']:g}"]
            busy = each["carried"]
            line += [f"{100 * busy[policy]:.0f}" for policy in ("split", "shared", "dedicated")]
            more = [percent(busy["dedicated"] / busy[base] - 1) if busy[base] else "" for base in ("split", "shared")]
            carried.append(line + more)
        found += [curves, settings, *([carried] if record["experiments"] else [])]
    return found


def quantized(records: Sequence[Mapping]) -> list[Lines]:
    quality = [["model", "rows", "task", "rung", "AUC, 1/1000", "calibration, 1/1000", "largest difference, 1/1000"]]
    cost = [["model", "rows", "rung", "weights, MB", "times smaller", "whole export, MB", "CPU us per request", "times less CPU"]]
    curve = [["model", "rows", "task", "AUC in float32", *(f"{bits} bits" for bits in range(8, 1, -1)), "AUC .001 lower at"]]
    for one in (each for record in records for each in record["models"]):
        names, exact = [one["model"], f"{one['data_set']}, {one['source']}"], one["rungs"]["float32"]
        for task, area in one["auc"].items():
            for rung in ("bf16_rows", "int8_rows"):
                of = one["rungs"][rung]
                apart = [1e3 * (np.array(of[what][task]) - exact[what][task]) for what in ("auc", "calibration")]
                quality.append([*names, task, rung, *(interval(each, signed) for each in apart), signed(1e3 * of["largest"])])
            of_bits = dict(zip(one["bits"], one["auc_of_bits"][task]))
            lower = [bits for bits, each in of_bits.items() if each <= area - 0.001]
            falls = f"{max(lower)} bits" if lower else "none of these"
            differences = [signed(1e3 * (of_bits[bits] - area)) for bits in range(8, 1, -1)]
            curve.append([*names, task, f"{area:.4f}", *differences, falls])
        for rung, of in one["rungs"].items():
            smaller, less = "", ""
            if rung != "float32":
                smaller, less = number(exact["weights_bytes"] / of["weights_bytes"]), ratios(exact["cpu"], of["cpu"])
            sizes = [number(of["weights_bytes"] / 1e6), smaller, number(of["total_bytes"] / 1e6)]
            cost.append([*names, rung, *sizes, number(1e6 * np.median(of["cpu"])), less])
    return [quality, cost, curve]


def workers(records: Sequence[Mapping]) -> list[Lines]:
    sent = [["model", "batch", "workers", "kB per step", "least kB", "% of bound", "packets", "all-reduces", "all-to-alls"]]
    steps = [["model", "batch", "workers", "link", "step, ms", "times one worker's part alone", "link's ms"]]
    steps[0] += ["of it hidden", "at most"]
    for record in records:
        free, alone = None, iter(record["alone"])
        for m in record["measured"]:
            name = [m["model"], str(m["batch"]), str(m["workers"])]
            link, seconds = ["", "", ""], np.array(m["seconds"])
            if m["megabits"] is None:
                free, part = seconds, np.array(next(alone)["seconds"])
                least = sum(m["least"][of] for of in ("dense", "keys", "rows", "row_gradients"))
                kilobytes = [number(m["bytes"] / 1e3), number(least / 1e3), number(100 * least / m["bytes"])]
                sent.append([*name, *kilobytes, number(m["packets"]), str(m["reduces"]), str(m["exchanges"])])
            else:
                needed = 8e-6 * m["bytes"] / m["megabits"]
                hidden = interval(1 - (seconds - free) / needed, percent)
                link = [number(1e3 * needed), hidden, percent(min(1.0, np.median(part) / needed))]
            rate = "the machine's" if m["megabits"] is None else f"{m['megabits']:g} Mbit/s"
            steps.append([*name, rate, interval(1e3 * seconds), ratios(seconds, part), *link])
    return [sent, steps]


EXPECTED = {"serving": serving, "groups": groups, "fleet": fleet, "quantized": quantized}
EXPECTED |= dict.fromkeys(("workers_fitted", "workers_held_out"), workers)
