"""Gives labels to versions, in a model's folder: models/ctr/labels.json, such as {"stable": 7, "canary": 8}.

Clients ask for a label; the person who releases decides to which version it refers, and a running server follows. The file is
replaced at once. As in TensorFlow Serving: https://www.tensorflow.org/tfx/serving/serving_config.
"""

from __future__ import annotations

import json
import operator
from pathlib import Path

from filelock import FileLock

from ctrlab.errors import CtrlabError, cure_of
from ctrlab.paths import write_atomically
from ctrlab.serving.label_file import FILE, NAME, read_labels
from ctrlab.serving.manifest import verify
from ctrlab.serving.versions import versions


def label_lock(folder: Path) -> FileLock:
    """The lock of a folder's labels. Its holder may set labels, and delete versions without a label."""
    return FileLock(folder / f".{FILE}.lock")


def set_label(folder: Path, label: str, version: int | None) -> dict[str, int]:
    """Gives the label to a version, or to none if `version` is None. Returns all labels.

    Raises:
        CtrlabError: the label is not a valid name; the folder or version does not exist or is incomplete; the folder can't be
            written.
    """
    folder = Path(folder)
    if not isinstance(label, str) or not NAME.fullmatch(label):
        raise CtrlabError(f"A label has letters, digits, dots, - and _, at most 100; received {repr(label)[:200]}.")
    if not folder.is_dir():
        raise CtrlabError(f"A label is of a version in a model's folder; {folder} is no folder: name one that was exported to.")
    try:
        with label_lock(folder):
            if version is not None:
                version = _whole(folder, version)
            labels = read_labels(folder)
            if version is None:
                if label not in labels:
                    raise CtrlabError(f"{folder} has the labels {', '.join(labels) or '(none)'}; received {label}.")
                del labels[label]
            else:
                labels[label] = version
            write_atomically(folder / FILE, json.dumps(labels, indent=1))
    except OSError as error:
        raise CtrlabError(f"{folder / FILE} can't be written: {error.strerror}; {cure_of(error, 'free some space')}.") from None
    return labels


def _whole(folder: Path, version: int) -> int:
    there = versions(folder)
    try:
        number = int(operator.index(version))
    except TypeError:
        number = 0
    if number not in there:
        has = ", ".join(map(str, there)) or "none"
        raise CtrlabError(f"A label is of a version that is there; {folder} has {has}, received {version!r}.")
    verify(folder / str(number))
    return number
