"""Training on several workers, on TensorFlow's own collectives: dense weights on each, tables sharded by key.

workers = join()                                                  # this process's place, by TF_CONFIG
with Run(Spec("dlrm", "all"), workers) as run:
    run.train()
"""

from ctrlab.lazy import loader

_PLACES = {
    **dict.fromkeys(("Workers", "join"), "cluster"),
    **dict.fromkeys(("Place", "given_place"), "place"),
    "local": "launch",
}
__all__ = sorted(_PLACES)
__getattr__ = loader(__name__, _PLACES)  # the launcher needs no TensorFlow
