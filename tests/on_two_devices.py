"""`python -m tests.on_two_devices PROGRAM MODEL FOLDER`: what a model does where TensorFlow sees a GPU, on a machine without one.

A second logical CPU stands for the GPU. It is the default device, as a GPU would be: what is not placed lands on it, and an op
that reads a variable of the other device is refused. Prints JSON, {configuration: findings}.
"""

import collections
import functools
import json
import sys
from pathlib import Path

import keras
import tensorflow as tf

import ctrlab
from ctrlab import data, devices, serving, training
from ctrlab.embedding import Embedding
from ctrlab.model_names import DATA_SETS
from ctrlab.profiling import doctor
from ctrlab.schema import Schema
from ctrlab.serving import inputs
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing import Publisher
from ctrlab.training.threads import STAGED
from tests.few_columns import few

sys.path.append(str(Path(__file__).parent / "serving"))
from wire_requests import by_columns

GPU = "CPU:1"
ROWS = 64
SPLIT = ("all", "gpu", "hashed")
CONFIGURATIONS = [("none", "auto", "hashed"), ("all", "cpu", "hashed"), SPLIT]
OTHERS = [
    ("stock", "gpu", "hashed"),
    ("none", "cpu", "hashed"),
    ("all", "auto", "variable"),
    ("all", "gpu", "variable"),
    ("none", "gpu", "variable"),
]


def place(device: str) -> str:
    return device.rpartition("device:")[2]


def ops(function) -> dict[str, list[str]]:
    """{device: the kinds of ops of a traced function that must be there}; "" for ops that follow what they read."""
    graph, kinds = function.graph.as_graph_def(), collections.defaultdict(set)
    for node in (*graph.node, *(node for body in graph.library.function for node in body.node_def)):
        kinds[place(node.device)].add(node.op)
    return {device: sorted(found) for device, found in kinds.items()}


def trained(name, schema, batch, configuration) -> tuple[dict, keras.Model]:
    """One model, its steps and its answers, from the same first weights in each configuration."""
    rungs, device, kind = configuration
    embedding = {column.table: kind for column in schema.id_columns if column.encoding == "hash"}
    model = ctrlab.build(name, schema, rungs, embedding=embedding, device=device)
    optimizer = training.make_optimizer(model)
    step, logits = training.train_step(model, optimizer), model(batch[0])
    found = {"device": model.device, "eager": place(logits.device), "logits": logits.numpy().tolist()}
    found["losses"] = [float(step(*batch)) for _ in range(2)]
    found["variables"] = {variable.path: place(variable.value.device) for variable in (*model.variables, *optimizer.variables)}
    found["ops"] = ops(step.get_concrete_function(*batch))
    return found, model


def answers(model, batch, folder: Path) -> dict:
    """The same rows by every other way to an answer, each after the model was saved and loaded."""
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    found = {"p": training.predict_step(model)(batch[0]).numpy().tolist()}
    found["loaded"] = loaded.probabilities(batch[0]).numpy().tolist()
    version = serving.export_model(model, folder / "versions", rows=[{k: v[:3] for k, v in batch[0].items()}])
    request = inputs.to_tensors(batch[0], inputs.inputs_of(model, "text"), model)
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    found["saved model"] = next(iter(signature(**request).values())).numpy().tolist()
    with Processor(folder / "versions", poll_seconds=0) as processor:
        reply = processor.process(by_columns(request), "json")
    return found | {"served": json.loads(reply.data)["outputs"]}


def fitted(model, batches) -> dict:
    """Keras's `fit`, `evaluate` and `predict`."""
    training.compile_model(model).fit(iter(batches), verbose=0)
    features, labels = batches[0]
    return {
        "evaluated": model.evaluate(features, labels.numpy(), verbose=0),
        "predicted": len(model.predict(features, verbose=0)),
    }


def run(rungs: str, name: str, folder: Path) -> dict:
    """What `ctrlab train` does: reader, stage, several steps a call, saves, publications."""
    saving = training.Saving(folder / "run", every=4)
    spec = training.Spec(name, f"{rungs},loop,async_checkpoint", profile="tiny", device="gpu", saving=saving, setting=STAGED)
    with training.Run(spec) as made, Publisher(folder / "published", made.model, made.optimizer, every=1e6, rows=[]) as publisher:
        losses = made.train(10, on_step=publisher).losses
        return {"losses": losses, "auc": made.evaluate(256).auc}


def of_your_own() -> dict:
    """Somebody's Keras model with an embedding variable and a layer of its own."""
    keys = keras.Input((), dtype="int64")
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Dense(4)(Embedding(4, combiner="rows")(keys))))
    model.compile(training.TouchedRows("adagrad", 0.1, rungs="lookup"), keras.losses.BinaryCrossentropy(from_logits=True))
    history = model.fit(tf.range(32, dtype=tf.int64), tf.cast(tf.range(32) % 2, tf.float32), epochs=2, verbose=0)
    return {"losses": history.history["loss"], "variables": {v.path: place(v.value.device) for v in model.variables}}


def batches_of(name: str, folder: Path) -> tuple[Schema, list]:
    schema, file = few(data.schema(DATA_SETS[name]).with_buckets(100)), folder / "rows.parquet"
    data.write(list(data.generate(schema.name, rows=2 * ROWS, seed=3)), schema, file, "parquet", progress=False)
    return schema, list(data.read(file, schema, batch_size=ROWS))


def steps(name: str, folder: Path, configurations=CONFIGURATIONS) -> dict:
    schema, batches = batches_of(name, folder)
    return {",".join(each): trained(name, schema, batches[0], each)[0] for each in configurations}


def more_steps(name: str, folder: Path) -> dict:
    return steps(name, folder, OTHERS)


def entries(name: str, folder: Path) -> dict:
    schema, batches = batches_of(name, folder)
    _, model = trained(name, schema, batches[0], SPLIT)
    exec(doctor._TRY, {})
    return {"split": answers(model, batches[0], folder) | fitted(model, batches), "own": of_your_own()}


PROGRAMS = {
    "steps": steps,
    "more_steps": more_steps,
    "entries": entries,
    "run_none": functools.partial(run, "none"),
    "run_all": functools.partial(run, "all"),
}


if __name__ == "__main__":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    devices.gpus = lambda: [GPU]
    with tf.device(GPU):
        print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))))
