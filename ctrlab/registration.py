"""Makes `import ctrlab` enough for Keras to find our classes in files, and for TensorFlow to find our ops in SavedModels.

Keras looks a class up by its registered name, and a class is registered when its module is imported, which takes TensorFlow.
So `expect` waits until somebody imports Keras, and then registers a stand-in for each class. It imports the real class when a
file needs it; that registers the class in the stand-in's place. The compiled ops are loaded when TensorFlow is.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable

from ctrlab.errors import NativeLibraryError

PACKAGE = "ctrlab"
CLASSES: dict[str, str] = {
    "Embedding": "embedding.layer",
    "TouchedRows": "training.optimizers",
    "TaskAUC": "training.task_auc",
    "WDL": "models.wdl",
    "DeepFM": "models.deepfm",
    "DLRM": "models.dlrm",
    "DIN": "models.din",
    "DIEN": "models.dien",
    "MMoE": "models.mmoe",
}
"""{class: its module} for each class that is registered with Keras; tests/test_registration.py compares it with the source."""
log = logging.getLogger(__name__)


def expect() -> None:
    """Registers stand-ins when Keras is imported, and loads the compiled ops when TensorFlow is; at once if they are imported
    already.
    """
    after = {"keras": _register_stand_ins, "tensorflow": _load_ops}
    sys.meta_path.insert(0, _Watch({name: act for name, act in after.items() if name not in sys.modules}))
    for name, act in after.items():
        if name in sys.modules:
            act()


class _Watch:
    """An import finder that lets the other finders find a module, and acts after its import."""

    def __init__(self, after: dict[str, Callable[[], None]]):
        self._after = after

    def find_spec(self, name: str, path=None, target=None):
        if name not in self._after:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if found is not None:
            run = found.loader.exec_module

            def run_and_act(module):
                run(module)
                self._after.pop(name, lambda: None)()

            found.loader.exec_module = run_and_act
        return found


def _register_stand_ins() -> None:
    from keras.utils import get_custom_objects

    known = get_custom_objects()
    for name, module in CLASSES.items():
        known.setdefault(f"{PACKAGE}>{name}", _stand_in(name, module))


def _stand_in(name: str, module: str) -> type:
    def from_config(cls, config, **options):
        return getattr(importlib.import_module(f"{PACKAGE}.{module}"), name).from_config(config, **options)

    return type(name, (), {"from_config": classmethod(from_config), "__doc__": f"Stands for {PACKAGE}.{module}.{name} in files."})


def _load_ops() -> None:
    from ctrlab import _native

    try:
        _native.library()
    except NativeLibraryError as problem:  # TensorFlow is good for other things: whoever uses an op of ours gets the error
        log.warning("%s", problem)
