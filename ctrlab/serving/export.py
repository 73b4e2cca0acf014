"""Writes a trained model as a new version for servers: `ctrlab export`.

    models/ctr/7/saved_model.pb                                    the graph with its weights
    models/ctr/7/assets.extra/tf_serving_warmup_requests           requests of real rows
    models/ctr/7/ctrlab.json                                       the manifest

The export holds stock ops only: TensorFlow Serving, and any program with TensorFlow, loads it without this package. It has one
signature, "serving_default", with flat inputs named by column (`ctrlab.serving.inputs`) and the output "probabilities", float32
[B, K].
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ctrlab.embedding.formats.saves import Link, Save, last_whole
from ctrlab.embedding.variable import embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.models.saving import description, from_description
from ctrlab.optimizations import STOCK
from ctrlab.serving import manifest as manifests
from ctrlab.serving import warm_up
from ctrlab.serving.graph import answers, frozen
from ctrlab.serving.inputs import Features, Kind, inputs_of, to_tensors
from ctrlab.serving.manifest import Manifest, files_in
from ctrlab.serving.versions import new_version
from ctrlab.training.restoring import restore


def export(run: Path, out: Path, *, inputs: Kind = "text", rows: Sequence[Features] = (), number: int | None = None) -> Path:
    """Exports a run's last complete checkpoint as a new version in the folder `out`; returns the version's folder.

    Args:
        run: the folder with the checkpoints.
        inputs: whether requests hold raw text or ids.
        rows: features of real batches, as readers yield them: the warm-up requests.
        number: of the version; None: one more than the newest.
    Raises:
        BadData: no complete checkpoint, or it does not describe its model. CtrlabError: as `export_model`.
    """
    model, save = load(run)
    return export_model(model, out, inputs=inputs, rows=rows, number=number, save=save)


def load(run: Path) -> tuple[CTRModel, Save]:
    """The model of a run's last complete checkpoint, with stock ops, and the checkpoint's metadata.

    Raises:
        BadData: there is no complete checkpoint, or it does not describe its model.
    """

    def made(links: list[Link]) -> CTRModel:
        if not links[-1].save.model:
            raise CtrlabError(
                f"A checkpoint of one of the six models says how the model is made; {links[-1].path} does not: it is of another "
                "model, or an earlier ctrlab wrote it. Resume the run for a step, or give the model to export_model."
            )
        return from_description(links[-1].save.model, STOCK.name)

    model = last_whole(Path(run), made)[1]
    return model, restore(run, model).save


def export_model(
    model: CTRModel,
    out: Path,
    *,
    inputs: Kind = "text",
    rows: Sequence[Features] = (),
    number: int | None = None,
    save: Save | None = None,
) -> Path:
    """Exports a model that was built with the optimizations "none" or "stock"; the other arguments are as of `export`.

    Args:
        save: the metadata of the checkpoint that the weights are of.
    Raises:
        CtrlabError: the model has compiled ops, embedding variables or too many weights; a row lacks a column; an answer is not
            finite; this version exists; another export writes into `out`; the disk refuses. Nothing has changed then.
    """
    if model.rungs - {STOCK.name}:
        raise CtrlabError(
            f"A stock export holds TensorFlow's own ops; this {model.name} was built with {', '.join(sorted(model.rungs))}: "
            "load its checkpoint into a model built with optimizations='stock'."
        )
    if grown := embedding_variables(model):
        raise CtrlabError(
            f"A stock export holds constants, and an embedding variable is none; {model.name} has {len(grown)}, such as "
            f"{grown[0].name}: export the model with `model.export`, and register the ops where it is loaded."
        )
    columns = inputs_of(model, inputs)
    requests = [to_tensors(features, columns, model) for features in rows[: warm_up.MOST]]
    graph = frozen(model, columns)
    warm = [found.astype(float).tolist() for found in answers(graph, requests)]
    if odd := [n for n, found in enumerate(warm) if not np.all(np.isfinite(found))]:
        raise CtrlabError(
            f"A model for serving answers with finite numbers; {model.name} does not for warm-up request {odd[0]}: its training "
            "has diverged, or the row is damaged. Export an earlier checkpoint, or other rows."
        )
    with new_version(out, number) as (number, folder):
        (folder / "saved_model.pb").write_bytes(graph.SerializeToString())
        if requests:
            warm_up.write_requests(folder, Path(out).resolve().name, requests)
        found = Manifest(
            format=manifests.FORMAT,
            model=description(model),
            optimizations=tuple(sorted(model.rungs)),
            inputs=columns,
            tasks=model.tasks,
            trained={name: str(value) for name, value in save.run.items()} if save else {},
            step=save.step if save else 0,
            position=save.position if save else 0,
            versions={name: version(name) for name in ("ctrlab", "tensorflow")},
            warm_up=warm,
        )
        found = replace(found, files=files_in(folder))
        (folder / manifests.NAME).write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    return Path(out) / str(number)
