"""A model in training, for tests of what it publishes."""

import json

import numpy as np
from served import TOLERANCE, first, probabilities
from wire_requests import by_columns

from ctrlab import models, training
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs
from ctrlab.serving.publishing import Publisher


class Trainer:
    """A model in training, with what a server of it should answer."""

    def __init__(self, small_batches, name, embedding="hashed", **options):
        schema, self.batches = small_batches(DATA_SETS[name])
        hashed = {column.table for column in schema.id_columns if column.encoding == "hash"}
        self.model = models.build(name, schema, embedding=dict.fromkeys(hashed, embedding), optimizations="all")
        self.optimizer = training.make_optimizer(self.model)
        self._step = None
        self.number = 0

    def publisher(self, folder, **options):
        return Publisher(folder, self.model, self.optimizer, rows=[first(self.batches[0][0], 3)], **options)

    def step(self):
        self._step = self._step or training.train_step(self.model, self.optimizer)
        features, labels = self.batches[self.number % len(self.batches)]
        self.number += 1
        self._step(features, labels)

    def agrees(self, processor):
        """Requires that the processor answers as the model does."""
        for features, _ in self.batches[:3]:
            batch = first(features, 50)
            columns = inputs.inputs_of(self.model, "text")
            reply = processor.process(by_columns(inputs.to_tensors(batch, columns, self.model)), "json")
            expected = probabilities(self.model, batch)
            np.testing.assert_allclose(json.loads(reply.data)["outputs"], expected, rtol=0, atol=TOLERANCE)
        return reply.version, reply.update


def published(publisher):
    publisher.publish()
    publisher.wait()
