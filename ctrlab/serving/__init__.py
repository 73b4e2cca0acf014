"""Serving: a trained model as version folders that a server loads."""

from ctrlab.serving.export import export, export_model, load
from ctrlab.serving.manifest import Manifest, read_manifest, verify
from ctrlab.serving.versions import versions

__all__ = [
    "Manifest",
    "export",
    "export_model",
    "load",
    "processor",
    "publishing",
    "read_manifest",
    "shared_publishing",
    "verify",
    "versions",
]
