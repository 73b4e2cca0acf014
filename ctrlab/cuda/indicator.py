"""The indicator column's cases."""

from __future__ import annotations

from ctypes import byref

import numpy as np

from ctrlab.cuda.cases import Case, Memory, histories, normal, splits_of
from ctrlab.cuda.devices import Device
from ctrlab.cuda.library import IdColumn, IndicatorInput, Library
from ctrlab.ops.references import indicator
from ctrlab.profiling.work import Work

CASES = {
    "odd": {"rows": 9, "sizes": (5, 3, 40), "lists": (False, True, True), "outputs": 3, "small": True},
    "odd_wide": {"rows": 7, "sizes": (11, 4), "lists": (True, False), "outputs": 45, "small": True},
    "deepfm": {"rows": 512, "sizes": (10_000,) * 15, "lists": (False,) * 12 + (True,) * 3, "outputs": 1, "small": False},
    "tags": {"rows": 2048, "sizes": (10_000,), "lists": (True,), "outputs": 64, "small": False},
}


def case(device: Device, library: Library, rng, *, rows, sizes, lists, outputs, small) -> Case:
    memory = Memory(device)
    columns, entries, offset = [], [], 0
    for c, (size, is_list) in enumerate(zip(sizes, lists)):
        lengths = histories(rng, rows, 30, small=small) if is_list else np.ones(rows, int)
        ids, splits = rng.integers(-1 if small else 0, size, lengths.sum()), splits_of(lengths)
        columns.append((ids, splits))
        pointer = memory.put(f"splits {c}", splits) if is_list else None
        entries.append(IdColumn(memory.put(f"ids {c}", ids), pointer, None, offset, size))
        offset += size
    kernel, d_out = normal(rng, offset, outputs), normal(rng, rows, outputs)
    given = IndicatorInput(memory.structs("columns", entries), len(entries), rows, outputs)
    kernel_at, d_out_at = memory.put("kernel", kernel), memory.put("d_out", d_out)
    out_at, d_kernel_at = memory.empty("out", (rows, outputs)), memory.empty("d_kernel", (offset, outputs))
    hits = sum(len(ids) for ids, _ in columns)

    def run() -> dict:
        library.indicator(byref(given), kernel_at, out_at, device.stream)
        library.indicator_gradient(byref(given), d_out_at, offset, d_kernel_at, device.stream)
        return {name: memory[name] for name in ("out", "d_kernel")}

    touched = min(hits, offset)
    return Case(
        f"B={rows}, V={offset}, C={len(sizes)}, {hits / rows:.3g} ids a row, O={outputs}",
        run,
        _expected(columns, sizes, kernel, d_out) if small else {},
        work=Work(flops=4.0 * hits * outputs, bytes=16.0 * hits + 4.0 * outputs * (2 * rows + touched + offset)),
        rival=("torch embedding_bag", _torch(columns, sizes, kernel, d_out)) if not small else None,
    )


def _expected(columns, sizes, kernel, d_out) -> dict[str, np.ndarray]:
    """Runs the definition for each example. It takes one id per column here, so the ids of a list are summed."""
    out, d_kernel = np.zeros(d_out.shape), np.zeros(kernel.shape)
    for c, ((ids, splits), size) in enumerate(zip(columns, sizes)):
        rows_of = np.repeat(np.arange(len(d_out)), np.diff(splits))
        own = kernel[sum(sizes[:c]) : sum(sizes[: c + 1])]
        np.add.at(out, rows_of, indicator.reference([ids], [size], own))
        d_kernel[sum(sizes[:c]) : sum(sizes[: c + 1])] = indicator.reference_gradient([ids], [size], own, d_out=d_out[rows_of])[0]
    return {"out": out, "d_kernel": d_kernel}


def _torch(columns, sizes, kernel, d_out):
    """One embedding_bag over the ids of all columns, shifted to their columns' rows."""

    def build():
        import torch

        rows = len(d_out)
        shifted = [ids + sum(sizes[:c]) for c, (ids, _) in enumerate(columns)]
        bags = [shifted[c][s[b] : s[b + 1]] for b in range(rows) for c, (_, s) in enumerate(columns)]
        flat = torch.from_numpy(np.concatenate(bags)).cuda()
        lengths = np.sum([np.diff(s) for _, s in columns], axis=0)
        offsets = torch.from_numpy(splits_of(lengths)[:-1]).cuda()
        weight = torch.from_numpy(kernel).cuda().requires_grad_()
        gradient = torch.from_numpy(d_out).cuda()

        def run():
            out = torch.nn.functional.embedding_bag(flat, weight, offsets, mode="sum")
            return torch.autograd.grad(out, weight, gradient)

        return run

    return build
