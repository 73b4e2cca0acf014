"""Training on several workers, on TensorFlow's own collectives: dense weights on each, tables sharded by key.

>>> with Run(Spec("dlrm", "all"), join()) as run:     # doctest: +SKIP
...     run.train()
"""

from ctrlab.lazy import loader

_PLACES = {
    **dict.fromkeys(("Workers", "join"), "cluster"),
    **dict.fromkeys(("Place", "given_place"), "place"),
    "local": "launch",
    "on_ray": "ray_workers",
}
__all__ = sorted(_PLACES)
__getattr__ = loader(__name__, _PLACES)  # launchers need no TensorFlow
