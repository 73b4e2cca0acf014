"""The training step, the loop, optimizers and checkpoints."""

from ctrlab.lazy import loader

_PLACES = {
    **dict.fromkeys(("Changed", "Changes", "track"), "changes"),
    **dict.fromkeys(("CheckpointError", "Checkpoints"), "checkpoint"),
    **dict.fromkeys(("SHUFFLE_ROWS", "Evaluation", "History", "batch_size", "compile_model", "evaluate", "train"), "loop"),
    **dict.fromkeys(("TouchedRows", "make_optimizer"), "optimizers"),
    **dict.fromkeys(("Restored", "restore"), "restoring"),
    "Group": "group",
    "Run": "run",
    **dict.fromkeys(("copy_state", "get_state", "set_state"), "state"),
    **dict.fromkeys(("CheckpointCallback", "EvictionCallback"), "callback"),
    "EarlyStopping": "early_stopping",
    "Evictions": "eviction",
    **dict.fromkeys(("Saving", "Spec"), "spec"),
    "SeveralSteps": "several",
    "score": "scoring",
    **dict.fromkeys(("gradients_of", "loss_of", "predict_step", "train_step"), "step"),
}
__all__ = sorted(_PLACES)
__getattr__ = loader(__name__, _PLACES)  # checkpoint files are read, merged and resharded without TensorFlow
