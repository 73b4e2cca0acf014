"""Checks of 04_serving/01_export: (1) normalizations that became part of the next layer's weights, (2) a program in C++ that
asks the processor. The second one runs under AddressSanitizer, against a processor that forgives nothing."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
from ctrlab.lessons.topics.export.c_host import planned

from ctrlab import compiling
from ctrlab.lessons import cpp_cell
from ctrlab.lessons.check import CheckFailed, require_close
from ctrlab.lessons.exercise import Each, Exercise
from ctrlab.lessons.limits import stated
from ctrlab.ops.kernel_swap import CHECK_MEGABYTES, CHECK_SECONDS, verdict
from ctrlab.paths import native

EPSILON = 1e-3
"""The epsilon of Keras's BatchNormalization."""
Norm = list[np.ndarray]  # gamma, beta, mean, variance
Layers = tuple[list[np.ndarray], list[np.ndarray], list[Norm]]  # kernels, biases, norms

OK, INVALID, NOT_FOUND, UNAVAILABLE, FAILED = range(5)
Steps = list[tuple[int, bytes, bytes]]


def fold(kernels: list[np.ndarray], biases: list[np.ndarray], norms: list[Norm]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The definition, in float64."""
    folded = [kernels[0]], [biases[0]]
    for kernel, bias, norm in zip(kernels[1:], biases[1:], norms):
        gamma, beta, mean, variance = (v.astype(np.float64) for v in norm)
        scale = gamma / np.sqrt(variance + EPSILON)
        folded[0].append((scale[:, None] * kernel).astype(np.float32))
        folded[1].append((bias + (beta - mean * scale) @ kernel).astype(np.float32))
    return folded


def towers(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, kernels, biases, norms)."""
    for case, sizes in (
        ("three layers", (7, 9, 5, 3)),
        ("square layers", (6, 6, 6)),
        ("five layers", (4, 8, 3, 8, 2, 1)),
        ("a layer of one output", (3, 1, 4)),
        ("one layer, which has no normalization before it", (5, 4)),
    ):
        yield case, *_tower(rng, sizes)
    kernels, biases, norms = _tower(rng, (6, 5, 4))
    gamma, beta, mean, variance = norms[0]
    yield "scales below 0", kernels, biases, [[-np.abs(gamma), beta, mean, variance]]
    yield "a column that was always the same: its variance is 0", kernels, biases, [[gamma, beta, mean, 0 * variance]]
    yield "a mean of 0 and a shift of 0", kernels, biases, [[gamma, 0 * beta, 0 * mean, variance]]
    yield "a scale of 0: only the shift is left", kernels, biases, [[0 * gamma, beta, mean, variance]]


def _tower(rng: np.random.Generator, sizes: tuple[int, ...]) -> Layers:
    def vector(n: int) -> np.ndarray:
        return rng.standard_normal(n).astype(np.float32)

    kernels = [rng.standard_normal(shape).astype(np.float32) for shape in itertools.pairwise(sizes)]
    norms = [[vector(n), vector(n), vector(n), rng.uniform(0.01, 3, n).astype(np.float32)] for n in sizes[1:-1]]
    return kernels, [vector(n) for n in sizes[1:]], norms


def same_layer(received: object, expected: np.ndarray, case: str, question: Sequence) -> None:
    """A kernel or a bias as the reference has it; the next step is for what is wrong with it."""
    require_close(received, expected, case=case, next_step=_look_at(received, expected, *question), rtol=same_layer.rtol)


same_layer.rtol = 1e-5
"""What the text of the exercise tells of how near a layer must come."""


def _look_at(mine: object, right: np.ndarray, kernels: list[np.ndarray], biases: list[np.ndarray], norms: list[Norm]) -> str:
    if right is kernels[0] or right is biases[0]:
        return "no norm stands before the first layer: its kernel and bias stay as they are"
    if getattr(mine, "shape", None) == right.shape and getattr(mine, "dtype", None) == right.dtype:
        if np.linalg.norm(mine - right) < 0.05 * np.linalg.norm(right):
            return "nearly right: does the root take the variance and EPSILON, and is all of it float32?"
        if right.ndim == 2:
            return "which inputs of the next layer does a scale meet, and which axis of its kernel are these?"
        return "what does the shift come to behind the next layer's kernel? The bias is added to that"
    return "each new array has the shape and the type of the old one"


def conversations(rng: np.random.Generator) -> Iterator[tuple[str, Steps]]:
    """The cases: (description, the calls of process that a right program makes)."""

    def body() -> bytes:
        row = {"user": f"ä{rng.integers(1 << 40)}", "item": "%s%n" * int(rng.integers(3)), "n": int(rng.integers(1 << 40))}
        return json.dumps({"instances": [row] * int(rng.integers(1, 9))}, ensure_ascii=False).encode()

    def answered(count: int = 3) -> bytes:
        return json.dumps({"predictions": rng.random((count, 1)).tolist()}).encode()

    def said() -> bytes:
        return f"Row {rng.integers(1 << 30)} has 100 %s of %d odd columns; a cure is “send fewer”.".encode()

    def once(code: int) -> Steps:
        return [(code, body(), said() if code else answered())]

    def again(*codes: int) -> Steps:
        asked = body()
        return [(code, asked, said() if code else answered()) for code in codes]

    yield "one request", once(OK)
    yield "no request", []
    yield "a refused request, and one behind it", once(INVALID) + once(OK)
    yield "answers before and behind each refusal", [s for c in (OK, INVALID, OK, NOT_FOUND, OK, FAILED, OK) for s in once(c)]
    yield "refusals alone", once(NOT_FOUND) + once(FAILED) + once(INVALID)
    yield "one that is answered when it is asked again", once(OK) + again(UNAVAILABLE, OK) + once(OK)
    yield "one that is unavailable twice", again(UNAVAILABLE, UNAVAILABLE) + once(OK)
    yield "one that is unavailable, and then refused", again(UNAVAILABLE, INVALID) + again(UNAVAILABLE, OK)
    large = json.dumps({"instances": [{"item": "x" * 100_000}]}).encode()
    yield "a request of 100,000 bytes", [(OK, large, answered())]
    yield "long answers", [(OK, body(), answered(4_000)), (OK, body(), answered(1)), (OK, body(), answered(900))]
    drawn = rng.choice([OK, INVALID, FAILED, UNAVAILABLE], 30)
    yield "thirty requests", [s for c in drawn for s in (again(UNAVAILABLE, OK) if c == UNAVAILABLE else once(int(c)))]


def lines(steps: Steps) -> list[str]:
    """The output of a right program: one line for the last call about each body."""
    last = {body: (code, text) for code, body, text in steps}
    return [f"{code} {text.decode()}" for code, text in last.values()]


@stated(
    "one call of `ctrlab_processor_free` for each answer, and at most one per call of `process`; at most two of these per line"
)
def check_ask(answer: object, rng: np.random.Generator) -> None:
    """Exercise 2: `ask`, the cell of a program as `ctrlab.lessons.topics.export.c_host` describes it."""
    strict = native() / "lessons/strict_processor.cc"
    with cpp_cell.checked(answer, [strict]) as program:
        for case, steps in conversations(rng):
            with planned(steps) as (folder, requests):
                limits = {"ASAN_OPTIONS": f"detect_leaks=0:color=never:hard_rss_limit_mb={CHECK_MEGABYTES}"}
                ended = compiling.run([program, folder, requests], CHECK_SECONDS, environment=limits)
            _require_ended_well(*ended, case)
            _require_lines(ended[1].split("\n"), lines(steps), case)


ENDS = {
    "stack-buffer-(over|under)flow": "what you say of a buffer's size is its size: sizeof problem",
    "heap-buffer-overflow": "an answer has `size` bytes, and no zero behind them",
    "use-after-free": "after ctrlab_processor_free the bytes are gone: write them before",
    "attempting (double-)?free|alloc-dealloc": "an answer is the library's: ctrlab_processor_free gives it back",
    "": "main returns what ctrlab_processor_release returned, 0 where all went well",
}
"""{message of the sanitizer: where to look}."""


def _require_ended_well(code: int | None, out: str, err: str, case: str) -> None:
    read = "lab.source('native/processor/processor_c.h') shows what it promises, and what it asks for"
    if code is None:
        step = "does a loop ask again for ever?"
        raise CheckFailed(
            "The program ends.", expected=f"an end within {CHECK_SECONDS} s", received="none", index=case, next_step=step
        )
    if broken := re.search(r'^\{"rule".*\}$', err, re.MULTILINE):
        found = json.loads(broken[0])
        raise CheckFailed(
            found["rule"], expected=found["expected"], received=found["received"], index=f"the case: {case}", next_step=read
        )
    if code == 0:
        return
    line = re.search(rf"{cpp_cell.CELL}:(\d+)", err)
    raise CheckFailed(
        "The program reads and writes only what it was given, and ends with 0.",
        expected="0",
        received=verdict(code, err) or f"an end with {code}",
        index=f"the case: {case}" + (f", line {line[1]} of the cell" if line else ""),
        next_step=next((step for word, step in ENDS.items() if re.search(word, err)), ENDS[""]),
    )


def _require_lines(received: list[str], expected: list[str], case: str) -> None:
    if len(received) != len(expected) + 1:
        raise CheckFailed(
            "For each request there is one line.",
            expected=len(expected),
            received=len(received) - 1,
            index=f"the case: {case}",
            next_step="a refused request has its line, too, and the loop goes on; a line ends behind each answer",
        )
    for n, (mine, right) in enumerate(zip(received, expected)):
        if mine != right:
            at = next((k for k, (a, b) in enumerate(zip(mine, right)) if a != b), min(len(mine), len(right)))
            raise CheckFailed(
                "A request's line is the code, a space, and the answer or the sentence.",
                expected=_around(right, at),
                received=_around(mine, at),
                index=f"character {at} of line {n} of the case: {case}",
                next_step="write `size` bytes of an answer, else `problem` as text and no format; then a line's end",
            )


def _around(text: str, at: int) -> str:
    return f"{len(text):,} characters, there {text[max(0, at - 20) : at + 20]!r}"


CHECKS = {
    1: Exercise(
        asks="fold(kernels, biases, norms): n kernels, n biases, n - 1 norms -> lists of n kernels and of n biases, float32",
        cases=towers,
        reference=fold,
        compare={"kernels": Each("layer", same_layer), "biases": Each("layer", same_layer)},
    ),
    2: check_ask,
}
