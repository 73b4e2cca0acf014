"""The step, the loop, the optimizers."""

from ctrlab.training.checkpoint import CheckpointError, Checkpoints
from ctrlab.training.loop import SHUFFLE_ROWS, Evaluation, History, batch_size, compile_model, evaluate, train
from ctrlab.training.optimizers import TouchedRows, make_optimizer
from ctrlab.training.restore import Restored, restore
from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import gradients_of, loss_of, predict_step, train_step

__all__ = [
    "SHUFFLE_ROWS",
    "CheckpointError",
    "Checkpoints",
    "Evaluation",
    "History",
    "Restored",
    "TouchedRows",
    "batch_size",
    "compile_model",
    "evaluate",
    "get_state",
    "gradients_of",
    "loss_of",
    "make_optimizer",
    "predict_step",
    "restore",
    "set_state",
    "train",
    "train_step",
]
