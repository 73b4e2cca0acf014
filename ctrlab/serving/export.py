"""Writes a trained model as a new version for servers: `ctrlab export`.

    models/ctr/7/saved_model.pb                                    the graph
    models/ctr/7/assets/weights                                    the weights; a stock export has them in the graph
    models/ctr/7/assets.extra/tf_serving_warmup_requests           requests of real rows
    models/ctr/7/ctrlab.json                                       the manifest

It has one signature, "serving_default", with flat inputs named by column (`ctrlab.serving.inputs`) and the output
"probabilities", float32 [B, K]. A stock export holds stock ops only: TensorFlow Serving, and any program with TensorFlow, loads
it without this package. Any other needs the compiled ops: `import ctrlab` in the process that loads it.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab.embedding.formats.saves import Link, Save, last_whole
from ctrlab.embedding.options import require_whole
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.models.saving import description, from_description
from ctrlab.optimizations import of_level, resolve
from ctrlab.serving import manifest as manifests
from ctrlab.serving import warm_up
from ctrlab.serving.bundled import Bundled
from ctrlab.serving.frozen import frozen, is_stock
from ctrlab.serving.graph import answers
from ctrlab.serving.inputs import Features, Input, Kind, inputs_of, of_one_user, to_tensors
from ctrlab.serving.manifest import Manifest, files_in
from ctrlab.serving.own import OwnModel, subject
from ctrlab.serving.versions import new_version
from ctrlab.training.restoring import restore


def export(
    run: Path,
    out: Path,
    *,
    optimizations: str | Iterable[str] = "all",
    inputs: Kind = "text",
    rows: Sequence[Features] = (),
    number: int | None = None,
    memory_rows: int | None = None,
    share_users: bool = False,
) -> Path:
    """Exports a run's last complete checkpoint as a new version in the folder `out`; returns the version's folder.

    Args:
        run: the folder with the checkpoints.
        optimizations: rungs of levels "model" and "serving"; "none" or "stock" for a stock export. "all" selects those that don't
            change results; "all,bf16" adds products of the towers in bfloat16, "all,int8_rows" table rows in 8 bits.
        inputs: whether requests hold raw text or ids.
        rows: features of real batches, as readers yield them, for the warm-up requests.
        number: the version's number, above all that were given before; None: the next one.
        memory_rows: the number of rows of each embedding variable that a server keeps in memory; the others lie on its disk.
            None: as in training.
        share_users: whether a request may hold a user once, with any number of candidates. The graph then computes the parts that
            depend only on the user and the context once. See `ctrlab.serving.inputs`, and `Schema.role` for the roles of columns.
            Warm-up requests then have the first example's user.
    Raises:
        BadData: no complete checkpoint, or it does not describe its model. CtrlabError: as in `export_model`.
    """
    with tempfile.TemporaryDirectory(prefix="ctrlab-export-") as storage:
        built, served = levels(optimizations)
        model, save = load(run, built, storage)
        options = {"inputs": inputs, "rows": rows, "number": number, "memory_rows": memory_rows, "share_users": share_users}
        return export_model(model, out, save=save, optimizations=served, **options)


def levels(optimizations: str | Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The optimizations of level "model", and those of level "serving".

    Raises:
        UnknownName, CtrlabError: as in `ctrlab.optimizations.resolve`; also if an optimization of another level is named.
    """
    names = optimizations.split(",") if isinstance(optimizations, str) else list(optimizations)
    names = [name.strip() for name in names]
    served = of_level(names, "serving")
    return resolve([name for name in names if name not in served] or "none", level="model"), served


def load(run: Path, optimizations: str | Iterable[str] = "all", storage: str | None = None) -> tuple[CTRModel, Save]:
    """The model of a run's last complete checkpoint, and the checkpoint's metadata.

    Args:
        optimizations: of level "model".
        storage: a folder for the rows of tables that had storage in training; None: all rows are in memory.
    Raises:
        BadData: there is no complete checkpoint, or it does not describe its model.
    """

    def made(links: list[Link]) -> CTRModel:
        if not links[-1].save.model:
            raise CtrlabError(
                f"A checkpoint of one of the six models says how the model is made; {links[-1].path} does not: it is of another "
                "model, or an earlier ctrlab wrote it. Resume the run for a step, or give the model to export_model."
            )
        return from_description(links[-1].save.model, optimizations, storage)

    model = last_whole(Path(run), made)[1]
    return model, restore(run, model).save


def export_model(
    model: CTRModel | keras.Model,
    out: Path,
    *,
    inputs: Kind = "text",
    rows: Sequence[Features] = (),
    number: int | None = None,
    save: Save | None = None,
    memory_rows: int | None = None,
    share_users: bool = False,
    optimizations: str | Iterable[str] = "none",
) -> Path:
    """Exports a model with the optimizations with which it was built. The model must not be trained meanwhile. The other
    arguments are those of `export`.

    Args:
        model: one of the six, or your own functional Keras model, with or without `ctrlab.embedding.Embedding`; see
            `ctrlab.serving.own`. An own model without ops of ours becomes a stock export.
        save: the metadata of the checkpoint that the weights come from.
        optimizations: rungs of level "serving".
    Raises:
        CtrlabError: a stock export can't hold the model's weights; an own model has inputs that no request can have; a row lacks
            a column; users can't be shared; an answer is not finite; this version exists; another export writes into `out`; the
            disk refuses. Nothing has changed then.
    """
    if memory_rows is not None:
        require_whole("`memory_rows`", memory_rows, 1, 31)
    model = subject(model)
    columns = inputs_of(model, inputs, share_users=share_users)
    requests = [to_tensors(of_one_user(features, columns), columns, model) for features in rows[: warm_up.MOST]]
    step = save.step if save else 0
    served = resolve(optimizations, level="serving")
    if is_stock(model, columns):
        if served:
            raise CtrlabError(
                f"A stock export holds its tables as TensorFlow's own ops read them; received {served[0]!r}: build the model "
                "with optimizations='all', or leave it out."
            )
        graph, write = frozen(model, columns), lambda folder: None
    else:
        bundled, bundle = Bundled(model, columns, memory_rows, served), secrets.token_hex(16)
        graph, write = bundled.saved_model(bundle), lambda folder: bundled.write(folder, bundle, step)
    with new_version(out, number) as (number, folder):
        write(folder)
        trained = Trained(save.run, step, save.position) if save else Trained()
        complete(folder, Path(out).resolve().name, model, columns, requests, graph, trained, served)
    return Path(out) / str(number)


@dataclass(frozen=True)
class Trained:
    """The origin of a version's weights, as recorded in the manifest."""

    run: Mapping[str, str] = field(default_factory=dict)
    step: int = 0
    position: int = 0


def complete(
    folder: Path,
    name: str,
    model: CTRModel | OwnModel,
    columns: Sequence[Input],
    requests: Sequence[Mapping[str, tf.Tensor]],
    graph: saved_model_pb2.SavedModel,
    trained: Trained,
    served: Sequence[str],
    known: Sequence[np.ndarray] | None = None,
) -> None:
    """Writes a version's graph beside its weights, tries it on the warm-up requests, and writes these and the manifest.

    Args:
        name: the model's name, for the requests.
        served: optimizations of level "serving".
        known: the answers to the requests, float32 [B, K] each, if the version shall not be tried because it has more rows than
            fit into this process.
    Raises:
        CtrlabError: an answer is not finite, or the version refuses a request. OSError: the disk refuses.
    """
    (folder / "saved_model.pb").write_bytes(graph.SerializeToString())
    warm = [found.astype(float).tolist() for found in (answers(folder, requests) if known is None else known)]
    if odd := [n for n, found in enumerate(warm) if not np.all(np.isfinite(found))]:
        raise CtrlabError(
            f"A model for serving answers with finite numbers; {model.name} does not for warm-up request {odd[0]}: its "
            "training has diverged, or the row is damaged. Export an earlier checkpoint, or other rows."
        )
    if requests:
        warm_up.write_requests(folder, name, requests)
    found = Manifest(
        format=manifests.FORMAT,
        model=description(model),
        optimizations=tuple(sorted({*model.rungs, *served})),
        inputs=columns,
        tasks=model.tasks,
        rows_apart=model.rows_apart,
        trained={name: str(value) for name, value in trained.run.items()},
        step=trained.step,
        position=trained.position,
        versions={name: version(name) for name in ("ctrlab", "tensorflow")},
        warm_up=warm,
    )
    found = replace(found, files=files_in(folder))
    (folder / manifests.NAME).write_text(manifests.sealed(found.to_json()), encoding="utf-8")
