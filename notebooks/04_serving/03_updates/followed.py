"""A model in training and a processor that follows it, in one process: for lessons."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.updates.clients import wait_until_served

import ctrlab
from ctrlab import data
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import Profile
from ctrlab.serving.inputs import Features
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing import Publisher
from ctrlab.serving.versions import versions
from ctrlab.training import make_optimizer, train_step

BATCH, REQUEST = 512, 16


class Followed:
    """A model after its first step, published as version 1, which a processor serves.

    The folder and the processor are removed at the end of this process, even if a notebook's cell has failed.

    Attributes:
        publisher: publishes on request. processor: looks for updates a hundred times per second.
        some: features of a few rows, as a request. right: {(version, update): the trainer's answers to these rows, float32 [B,
            K]}.
        steps: {(version, update): the training's step}.
    """

    def __init__(self, name: str, profile: Profile, **configuration):
        self._held = contextlib.ExitStack()
        atexit.register(self._held.close)
        self.folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="ctrlab-"))) / "ctr"
        files = data.prepare(DATA_SETS[name], profile=profile)
        self.batches = iter(files.read_train(BATCH, drop_remainder=True, epochs=-1))
        self.model = ctrlab.build(name, optimizations="all")
        self.optimizer = make_optimizer(self.model)
        self._step, first = train_step(self.model, self.optimizer), next(self.batches)
        self.some = {column: values[:REQUEST] for column, values in first[0].items()}
        self.publisher = Publisher(self.folder, self.model, self.optimizer, every=1e9, rows=[self.some])
        self._step(*first)
        self.publisher.publish()
        self.publisher.wait()
        self.right: dict[tuple[int, int], np.ndarray] = {}
        self.steps: dict[tuple[int, int], int] = {}
        self._configuration = {"poll_seconds": 0.01} | configuration
        self._open()

    def learn(self, steps: int = 1) -> Iterator[Features]:
        """Takes steps, and yields the features of each."""
        for features, labels in (next(self.batches) for _ in range(steps)):
            self._step(features, labels)
            yield features

    def publish(self, full: bool = False) -> dict:
        """Publishes the changes since the last time, as an update or a full version; returns the processor's `info` once it
        serves them.
        """
        self._begin(full)
        info = wait_until_served(self.processor, int(self.optimizer.iterations))
        moment = info["version"], info["update"]
        self.steps[moment] = info["step"]
        self.right[moment] = tf.sigmoid(self.model(self.some, training=False)).numpy()
        return info

    def _begin(self, full: bool) -> None:
        self.publisher.full_every = 1 if full else 1 << 30
        self.publisher.publish()

    def publish_to_no_disk(self) -> None:
        """Publishes an update while the disk is full. The publisher says so."""
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch("ctrlab.serving.publishing.write_update", side_effect=full):
            self._begin(full=False)
            self.publisher.wait()

    def publish_with_a_gap(self, learn: Callable[[], object]) -> tuple[dict, dict]:
        """Publishes a version with three updates, with steps between them, while no processor looks, and hides the first
        update. Returns a new processor's `info`, and its `info` when the update is back.
        """
        self.processor.close()
        for full in (True, False, False, False):
            learn()
            self._begin(full)
        self.publisher.wait()
        hidden = (self.updates / "1").rename(self.folder / "hidden")
        self._open()
        found = self.processor.info()
        hidden.rename(self.updates / "1")
        return found, wait_until_served(self.processor, int(self.optimizer.iterations))

    @property
    def updates(self) -> Path:
        """The folder with the updates of the newest version."""
        return self.folder / f"{versions(self.folder)[-1]}.updates"

    def _open(self) -> None:
        self.processor = self._held.enter_context(Processor(self.folder, **self._configuration))

    def close(self) -> None:
        self.publisher.close()
        self._held.close()
        atexit.unregister(self._held.close)
