"""The cases of GRU and AUGRU."""

from __future__ import annotations

from ctypes import byref

import numpy as np

from ctrlab.cuda.cases import Case, Memory, histories, normal, splits_of
from ctrlab.cuda.devices import Device
from ctrlab.cuda.library import GruGradient, GruInput, Library
from ctrlab.ops.references import gru
from ctrlab.ops.references.arrays import Events
from ctrlab.profiling.work import Work

CASES = {
    "odd": {"rows": 11, "longest": 6, "inputs": 5, "hidden": 3, "attends": False, "small": True},
    "odd_attending": {"rows": 5, "longest": 4, "inputs": 2, "hidden": 7, "attends": True, "small": True},
    "gru": {"rows": 1024, "longest": 100, "inputs": 36, "hidden": 36, "attends": False, "small": False},
    "augru": {"rows": 1024, "longest": 100, "inputs": 36, "hidden": 36, "attends": True, "small": False},
}
WEIGHTS = ("gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias")


def case(device: Device, library: Library, rng, *, rows, longest, inputs, hidden, attends, small) -> Case:
    memory = Memory(device)
    # At full length nothing is padding, so a rival with padding does the same work.
    lengths = histories(rng, rows, longest, small=True) if small else np.full(rows, longest)
    splits, N, C, H = splits_of(lengths), int(lengths.sum()), inputs, hidden
    shapes = {"gates_kernel": (C + H, 2 * H), "gates_bias": (2 * H,), "candidate_kernel": (C + H, H), "candidate_bias": (H,)}
    values = {"x": normal(rng, N, C)} | {name: normal(rng, *shape, scale=0.3) for name, shape in shapes.items()}
    attention = rng.random(N).astype(np.float32) if attends else None
    d_outputs, d_last = normal(rng, N, H), normal(rng, rows, H)

    at = {name: memory.put(name, value) for name, value in values.items()}
    attention_at = memory.put("attention", attention) if attends else None
    given = GruInput(at["x"], memory.put("splits", splits), *(at[name] for name in WEIGHTS), attention_at, rows, C, H)
    outputs, last = memory.empty("outputs", (N, H)), memory.empty("last", (rows, H))
    gates, d_gates = memory.empty("gates", (N, 3 * H)), memory.empty("d_gates", (N, 3 * H))
    first = memory.empty("first", (N,), np.int32)
    d_at = {f"d_{name}": memory.empty(f"d_{name}", value.shape) for name, value in values.items()}
    d_attention = memory.empty("d_attention", (N,)) if attends else None
    gradient = GruGradient(*d_at.values(), d_attention)
    upstream = memory.put("d_outputs", d_outputs), memory.put("d_last", d_last)

    def run() -> dict:
        library.gru(byref(given), outputs, last, gates, device.stream)
        library.gru_gradient(byref(given), N, outputs, gates, *upstream, byref(gradient), d_gates, first, device.stream)
        return {name: memory[name] for name in ("outputs", "last", *d_at, *(("d_attention",) if attends else ()))}

    return Case(
        f"B={rows}, N={N}, T={longest}, C={C}, H={H}",
        run,
        _expected(values, splits, attention, d_outputs, d_last) if small else {},
        # Three products of [x, h] with 3H columns; x, outputs and gates are written once and read once in each direction.
        work=Work(flops=18.0 * N * (C + H) * H, bytes=4.0 * N * (4 * C + 5 * H + 6 * H)),
        rival=None if small or attends else ("torch GRU (cuDNN)", _torch(values["x"].reshape(rows, longest, C), H)),
    )


def _expected(values, splits, attention, d_outputs, d_last) -> dict[str, np.ndarray]:
    x, *weights = values.values()
    given = (
        Events(splits, x),
        *(w.astype(np.float64) for w in weights),
        attention if attention is None else Events(splits, attention),
    )
    outputs, last = gru.reference(*given)
    gradients = gru.reference_gradient(*given, d_out=(d_outputs, d_last))
    names = (*(f"d_{name}" for name in values), "d_attention")
    return {"outputs": outputs.flat, "last": last} | {n: g for n, g in zip(names, gradients) if g is not None}


def _torch(x: np.ndarray, hidden: int):
    """cuDNN's GRU. It applies the reset after the product, at equal cost: compare times, not values."""

    def build():
        import torch

        layer = torch.nn.GRU(x.shape[2], hidden, batch_first=True).cuda()
        given = torch.from_numpy(x).cuda().requires_grad_()

        def run():
            outputs, last = layer(given)
            return torch.autograd.grad(outputs.sum() + last.sum(), [given, *layer.parameters()])

        return run

    return build
