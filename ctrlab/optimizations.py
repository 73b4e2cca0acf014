"""The ladder: every optimization in this workbook, in the order in which they are added.

The race, the charts, the lessons' order and the README's table are made from this one list. A new optimization is one entry here,
one op, one lesson.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ctrlab.errors import CtrlabError, choose
from ctrlab.model_names import DATA_SETS

Level = Literal["model", "input", "run", "serving"]
LEVELS: tuple[str, ...] = get_args(Level)


@dataclass(frozen=True)
class Optimization:
    """One rung.

    Attributes:
        name: used in commands and code, e.g. "indicator".
        summary: what it does, in one line.
        level: where it is passed: to `build` ("model"), the readers ("input"), the training loop ("run") or an export
            ("serving").
        models: the models it affects.
        lesson: the lesson that teaches it, "02_ops/01_indicator_column".
        published: the gain that others have reported, with its source.
        changes_results: True if it changes what is computed (bf16, batch size, multi-hash); such rungs are scored separately.
        cpu_only: True if its ops are compiled for the CPU alone, and compute a part of the model.
    """

    name: str
    summary: str
    level: Level
    models: tuple[str, ...]
    lesson: str
    published: str
    changes_results: bool = False
    cpu_only: bool = False


MODELS = tuple(DATA_SETS)

LADDER: tuple[Optimization, ...] = (
    Optimization(
        name="indicator",
        summary="sum the linear weights of an example's ids instead of multiplying a dense multi-hot vector",
        level="model",
        models=("wdl", "deepfm"),
        lesson="02_ops/01_indicator_column",
        published="DeepFM step 500 -> 75 ms (NicePerf, DeepRec CTR contest)",
        cpu_only=True,
    ),
    Optimization(
        name="lookup",
        summary="look up all columns in one op, merge the gradients of equal ids in a second, and step the optimizer in a third",
        level="model",
        models=MODELS,
        lesson="02_ops/02_one_lookup",
        published="1.05x (WDL) to 1.2x (DLRM, DeepFM) a step on a GPU (DeepRec's fused embedding)",
        cpu_only=True,
    ),
    Optimization(
        name="attention",
        summary="score real events only, not padding, with one small product per event; softmax and sum in one pass",
        level="model",
        models=("din", "dien"),
        lesson="02_ops/03_ragged_attention",
        published="-141 s of 2,063 s, by DIN and DIEN (NicePerf, DeepRec CTR contest)",
        cpu_only=True,
    ),
    Optimization(
        name="gru",
        summary="run the GRU over real events only: one op processes sequences of similar length as one block",
        level="model",
        models=("dien",),
        lesson="02_ops/04_fused_gru",
        published="with the AUGRU, DIEN -67.96 s in the contest (NicePerf, DeepRec CTR contest)",
        cpu_only=True,
    ),
    Optimization(
        name="augru",
        summary="run the AUGRU in the same way, with its attention's gradient in the same op",
        level="model",
        models=("dien",),
        lesson="02_ops/05_fused_augru",
        published="with the GRU, DIEN -67.96 s in the contest (NicePerf, DeepRec CTR contest)",
        cpu_only=True,
    ),
    Optimization(
        name="parsing",
        summary="split, hash and average the texts of all columns in two ops instead of a chain of string ops per column",
        level="model",
        models=MODELS,
        lesson="02_ops/06_sequence_parsing",
        published="88.47 s of the six-model total of 2,063 s (NicePerf, DeepRec CTR contest)",
    ),
    Optimization(
        name="interaction",
        summary="multiply pairs of embeddings in place, in one pass, and each pair once: only the lower triangle",
        level="model",
        models=("deepfm", "dlrm"),
        lesson="02_ops/07_interactions",
        published="sub-graphs with Reshape fused by hand: CPU use -10 % (metaapp on DeepRec)",
        cpu_only=True,
    ),
    Optimization(
        name="subgraphs",
        summary="fuse the ops between a tower's products (bias and batch norm, PReLU, affine) into one op each way",
        level="model",
        models=("deepfm", "dlrm", "din", "dien"),
        lesson="02_ops/08_subgraphs",
        published="sub-graphs with Reshape fused by hand: CPU use -10 % (metaapp on DeepRec)",
        cpu_only=True,
    ),
    Optimization(
        name="experts",
        summary="run a block of rows through all layers of an expert while it is in a core's cache; mix in one pass",
        level="model",
        models=("mmoe",),
        lesson="02_ops/09_experts",
        published="none found for MMoE",
        cpu_only=True,
    ),
    Optimization(
        name="auxiliary",
        summary="compute DIEN's auxiliary loss on real events only, forward and backward in one pass",
        level="model",
        models=("dien",),
        lesson="02_ops/03_ragged_attention",
        published="none by itself",
        cpu_only=True,
    ),
    Optimization(
        name="bf16",
        summary="multiply the towers' matrices in bfloat16; weights, last layers and updates stay in float32",
        level="model",
        models=MODELS,
        lesson="02_ops/10_mixed_precision",
        published="WDL 1.43x, DeepFM 1.12x (DeepRec's bf16 page)",
        changes_results=True,
    ),
    Optimization(
        name="parquet",
        summary="read columns instead of splitting lines of text",
        level="input",
        models=MODELS,
        lesson="02_ops/11_file_formats",
        published="training +30 %, storage -38 % (Vivo, DeepRec)",
    ),
    Optimization(
        name="encoded",
        summary="hash words and cast numbers once, offline, into 32-bit ids",
        level="input",
        models=MODELS,
        lesson="02_ops/12_feeding",
        published="part of 2 days -> 15 h on 1 billion rows (AWS)",
    ),
    Optimization(
        name="large_batch",
        summary="train on 2,048 examples per step",
        level="input",
        models=MODELS,
        lesson="02_ops/12_feeding",
        published="part of 2 days -> 15 h on 1 billion rows (AWS)",
        changes_results=True,
    ),
    Optimization(
        name="threads",
        summary="use the threads and buffers that tuning found to be fastest on this machine",
        level="run",
        models=MODELS,
        lesson="02_ops/13_threads_and_stages",
        published="33.4 s of the six-model total of 2,063 s, with stage and other parameters (NicePerf, DeepRec CTR contest)",
    ),
    Optimization(
        name="stage",
        summary="parse and hash the next batches in other threads while the model trains on the current one",
        level="run",
        models=MODELS,
        lesson="02_ops/13_threads_and_stages",
        published="DLRM 201 -> 212 steps/s on 32 vCPUs (DeepRec's SmartStage)",
    ),
    Optimization(
        name="loop",
        summary="take several steps per call: the loop and the reader's iterator are inside the graph",
        level="run",
        models=MODELS,
        lesson="02_ops/13_threads_and_stages",
        published="none by itself (Keras's steps_per_execution)",
    ),
    Optimization(
        name="async_checkpoint",
        summary="copy the state between two steps, and write it to disk in a background thread",
        level="run",
        models=MODELS,
        lesson="02_ops/14_checkpoints",
        published="31.7 s of the six-model total of 2,063 s (NicePerf, DeepRec CTR contest)",
    ),
    Optimization(
        name="bf16_exchange",
        summary="several workers send each other rows and their gradients in bfloat16: half the bytes",
        level="run",
        models=MODELS,
        lesson="03_embedding/10_shards",
        published="none found by itself",
        changes_results=True,
    ),
    Optimization(
        name="bf16_rows",
        summary="serve the rows of tables in bfloat16: half the memory",
        level="serving",
        models=MODELS,
        lesson="04_serving/08_quantize",
        published="none found by itself",
        changes_results=True,
    ),
    Optimization(
        name="int8_rows",
        summary="serve them in 8 bits and a scale per row instead: from a dimension of 16 on, less than a third of the memory",
        level="serving",
        models=MODELS,
        lesson="04_serving/08_quantize",
        published="none found by itself",
        changes_results=True,
    ),
)

STOCK = Optimization(
    name="stock",
    summary="not a rung, but the rival of all: the fastest way found with TensorFlow's own ops, with the same results",
    level="model",
    models=MODELS,
    lesson="02_ops/15_scoreboard",
    published="",
)
"""The best that a competent user can do with stock TensorFlow. It can't be combined, and no "all" contains it."""

RUNGS: dict[str, Optimization] = {rung.name: rung for rung in (*LADDER, STOCK)}


def resolve(optimizations: str | Iterable[str], level: Level | None = None) -> tuple[str, ...]:
    """The names that `optimizations` stands for, in the ladder's order.

    Args:
        optimizations: "none", "all" (every rung with changes_results=False), "all+results" (every rung), one name, names
            separated by commas, or an iterable of names; "stock", alone, is `STOCK`.
        level: select the rungs of this level from "all"; refuse individually named rungs of other levels.
    Raises:
        UnknownName: no such rung, as in an empty text or between two commas. CtrlabError: a rung of another level was named; no
            names were given.

    >>> resolve("none")
    ()
    """
    if isinstance(optimizations, str):
        optimizations = [part.strip() for part in optimizations.split(",")]
    if not isinstance(optimizations, Iterable):
        raise CtrlabError(f'Optimizations are names, "none" or "all"; received {optimizations!r}.')
    chosen: set[str] = set()
    for name in optimizations:
        choose("optimization", name, ["none", "all", "all+results", *RUNGS])
        if name in ("all", "all+results"):
            chosen |= {r.name for r in LADDER if (level in (None, r.level)) and (name == "all+results" or not r.changes_results)}
        elif name != "none":
            if level not in (None, RUNGS[name].level):
                raise CtrlabError(
                    f"Optimization {name!r} is of level {RUNGS[name].level!r}; here only those of level {level!r} can be "
                    f"given. Pass it to {_TAKERS[RUNGS[name].level]}."
                )
            chosen.add(name)
    if STOCK.name in chosen and len(chosen) > 1:
        raise CtrlabError(
            f"{STOCK.name!r} goes alone, since it is the rival of every rung; received it with {min(chosen - {'stock'})!r}."
        )
    return tuple(r for r in RUNGS if r in chosen)


def of_level(optimizations: str | Iterable[str], level: Level) -> tuple[str, ...]:
    """The names in `optimizations` that have this level, for a set that mixes levels.

    >>> of_level("indicator,parquet", "input")
    ('parquet',)
    """
    return tuple(name for name in resolve(optimizations) if RUNGS[name].level == level)


_TAKERS = {
    "model": "ctrlab.build",
    "input": "ctrlab.data.prepare_for",
    "run": "ctrlab.training",
    "serving": "ctrlab.serving.export",
}
