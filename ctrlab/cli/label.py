"""`ctrlab label`: which version of a model clients get by a name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import console, import_tensorflow
from ctrlab.errors import CtrlabError


def command(
    folder: Annotated[Path, typer.Argument(help="A model's folder, as `ctrlab export` writes it.")],
    label: Annotated[str, typer.Argument(help="Its name, such as stable or canary.")],
    version: Annotated[int | None, typer.Argument(min=1, help="The version that has it from now on.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="No version has it any more.")] = False,
) -> None:
    """Give a label to a version. Running servers follow; requests to `/v1/models/ctr/labels/stable:predict` get that version.

    - `ctrlab label models/ctr stable 7`
    - `ctrlab label models/ctr canary --remove`
    """
    if (version is None) != remove:
        raise CtrlabError("A label gets a version, or is taken away by --remove; name one of the two.")
    import_tensorflow()
    from ctrlab.serving.version_labels import set_label

    labels = set_label(folder, label, version)
    console().print(", ".join(f"{name}: {number}" for name, number in labels.items()) or "No labels.")
