"""The cases of ragged attention."""

from __future__ import annotations

import itertools
from ctypes import byref

import numpy as np

from ctrlab.cuda.cases import Case, Memory, histories, normal, padded, splits_of
from ctrlab.cuda.devices import Device
from ctrlab.cuda.library import AttentionGradient, AttentionInput, DenseGradient, DenseLayer, Library
from ctrlab.ops.references import attention
from ctrlab.ops.references.arrays import Events
from ctrlab.profiling.work import Work

CASES = {
    "odd": {"rows": 6, "longest": 5, "width": 3, "units": (4, 2), "small": True},
    "odd_long": {"rows": 4, "longest": 37, "width": 5, "units": (3, 7), "small": True},  # more than two chunks of events
    "din": {"rows": 512, "longest": 50, "width": 36, "units": (80, 40), "small": False},
}


def case(device: Device, library: Library, rng, *, rows, longest, width, units, small) -> Case:
    memory = Memory(device)
    lengths = histories(rng, rows, longest, small=small)
    splits, N, C = splits_of(lengths), int(lengths.sum()), width
    query, keys = normal(rng, rows, C), normal(rng, N, C)
    sizes = (4 * C, *units, 1)
    layers = [(normal(rng, i, o, scale=0.4), normal(rng, o, scale=0.4)) for i, o in itertools.pairwise(sizes)]
    d_weights, d_attended = normal(rng, N), normal(rng, rows, C)

    given = AttentionInput(memory.put("query", query), memory.put("keys", keys), memory.put("splits", splits), rows, C)
    given.layers = (DenseLayer * len(layers))(
        *((memory.put(f"kernel {n}", k), memory.put(f"bias {n}", b), *k.shape) for n, (k, b) in enumerate(layers))
    )
    given.layer_count = len(layers)
    scores, kept = memory.empty("scores", (N,)), memory.empty("kept", (N, sum(units)))
    weights, attended = memory.empty("weights", (N,)), memory.empty("attended", (rows, C))
    gradient = AttentionGradient(memory.empty("d_query", query.shape), memory.empty("d_keys", keys.shape))
    gradient.layers = (DenseGradient * len(layers))(
        *((memory.empty(f"d_kernel {n}", k.shape), memory.empty(f"d_bias {n}", b.shape)) for n, (k, b) in enumerate(layers))
    )
    upstream = memory.put("d_weights", d_weights), memory.put("d_attended", d_attended)
    names = ["weights", "attended", "d_query", "d_keys", *(f"d_{kind} {n}" for n in range(3) for kind in ("kernel", "bias"))]

    def run() -> dict:
        library.attention(byref(given), scores, kept, weights, attended, device.stream)
        library.attention_gradient(byref(given), weights, kept, *upstream, byref(gradient), device.stream)
        return {name: memory[name] for name in names}

    U, S = units
    return Case(
        f"B={rows}, N={N}, T={longest}, C={C}, {4 * C}-{U}-{S}-1",
        run,
        _expected(query, keys, splits, layers, d_weights, d_attended) if small else {},
        # Adding a constant to all scores of an example does not change its softmax. So the gradients of the biases cancel, and
        # that of the last bias is 0.
        yardsticks={f"d_bias {n}": f"d_kernel {n}" for n in range(3)},
        work=Work(flops=6.0 * N * (2 * C * U + U * S + S) + 6.0 * rows * C * U, bytes=4.0 * N * (3 * C + 2 * (U + S) + 3)),
        rival=None if small else ("torch, padded", _torch(query, keys, splits, layers, d_weights, d_attended)),
    )


def _expected(query, keys, splits, layers, d_weights, d_attended) -> dict[str, np.ndarray]:
    """The definition's values; its gradients by central differences of sum(d_weights * weights) + sum(d_attended * attended)."""
    inputs = {"d_query": query, "d_keys": keys}
    inputs |= {f"d_{kind} {n}": value for n, pair in enumerate(layers) for kind, value in zip(("kernel", "bias"), pair)}
    inputs = {name: value.astype(np.float64) for name, value in inputs.items()}

    def forward() -> tuple[np.ndarray, np.ndarray]:
        q, k, *flat = inputs.values()
        weights, attended = attention.reference(q, Events(splits, k), list(zip(flat[::2], flat[1::2])))
        return weights.flat, attended

    def total() -> float:
        weights, attended = forward()
        return float((weights * d_weights).sum() + (attended * d_attended).sum())

    answers = dict(zip(("weights", "attended"), forward()))
    for name, value in inputs.items():
        gradient = np.zeros(value.shape)
        for index in np.ndindex(value.shape):
            kept, step, sums = value[index], 1e-5, []
            for sign in (1, -1):
                value[index] = kept + sign * step
                sums.append(total())
            value[index] = kept
            gradient[index] = (sums[0] - sums[1]) / (2 * step)
        answers[name] = gradient
    return answers


def _torch(query, keys, splits, layers, d_weights, d_attended):
    """All B x T cells through the activation unit, with a mask."""

    def build():
        import torch

        k = torch.from_numpy(np.nan_to_num(padded(keys, splits)).astype(np.float32)).cuda().requires_grad_()
        q = torch.from_numpy(query).cuda().requires_grad_()
        flat = [torch.from_numpy(a).cuda().requires_grad_() for pair in layers for a in pair]
        valid = torch.arange(k.shape[1]).cuda()[None, :] < torch.from_numpy(np.diff(splits)).cuda()[:, None]
        upstream = torch.from_numpy(np.nan_to_num(padded(d_weights, splits)).astype(np.float32)).cuda()
        d_out = torch.from_numpy(d_attended).cuda()

        def run():
            wide = q[:, None, :].expand_as(k)
            x = torch.cat([wide, k, wide - k, wide * k], 2)
            for kernel, bias in zip(flat[:-2:2], flat[1:-2:2]):
                x = torch.sigmoid(x @ kernel + bias)
            scores = (x @ flat[-2] + flat[-1]).squeeze(2)
            weights = torch.where(valid, torch.softmax(torch.where(valid, scores, -(2.0**32)), 1), 0.0)
            attended = (weights[:, None, :] @ k).squeeze(1)
            return torch.autograd.grad([weights, attended], [q, k, *flat], [upstream, d_out])

        return run

    return build
