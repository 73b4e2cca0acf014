"""Helpers that the tests of exported versions share."""

import json
import time

import tensorflow as tf

from ctrlab import serving
from ctrlab.serving import inputs
from ctrlab.serving.manifest import FORMAT, NAME, files_in, sealed

TOLERANCE = 1e-6


def first(features, rows):
    return {name: feature[:rows] for name, feature in features.items()}


def probabilities(model, features):
    return tf.sigmoid(model(features, training=False)).numpy()


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.002)


def served(folder, model):
    """features -> probabilities from the version folder, as any program with TensorFlow gets them."""
    columns = serving.read_manifest(folder).inputs
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]

    def answer(features):
        found = signature(**inputs.to_tensors(features, columns, model))
        assert list(found) == ["probabilities"]
        return found["probabilities"].numpy()

    return answer


def seal(folder, change=lambda manifest: None):
    """Writes a version's manifest for the files that are there now, after a change, as an export of them would."""
    path = folder / NAME
    manifest = json.loads(path.read_text()) if path.exists() else {"format": FORMAT}
    manifest.pop("sha256", None)
    change(manifest)
    manifest["files"] = {name: file.to_json() for name, file in files_in(folder).items()}
    path.write_text(sealed(manifest))
