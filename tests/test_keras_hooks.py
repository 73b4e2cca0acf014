"""The private names of Keras and TensorFlow that we use: the installed versions have them, and they do what we expect.

A failure names the hook; `ctrlab/keras_hooks.py` says what it is for.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import keras_hooks
from ctrlab.errors import CtrlabError

VERSIONS = f"Keras {keras.__version__}, TensorFlow {tf.__version__}"
LAYER, OPTIMIZER, RESOURCE = keras.layers.Layer, keras.optimizers.Optimizer, tf.saved_model.experimental.TrackableResource
NAMES = [
    (LAYER, "_flatten_layers"),
    (LAYER, "_default_save_signature"),
    (LAYER, "_track_trackable"),
    (keras.Variable, "_restore_from_tensors"),
    (OPTIMIZER, "_backend_update_step"),
    (OPTIMIZER, "_overwrite_variable_with_gradient"),
    (OPTIMIZER, "_get_variable_index"),
    (RESOURCE, "_create_resource"),
    (RESOURCE, "_resource_handle"),
    (RESOURCE, "_export_to_saved_model_graph"),
    (RESOURCE, "_serialize_to_tensors"),
    (RESOURCE, "_restore_from_tensors"),
    (RESOURCE, "_track_trackable"),
]


def does(holds: bool, name: str, what: str) -> None:
    assert holds, f"{name} of {VERSIONS} no longer does what ctrlab/keras_hooks.py takes it for: {what}."


@pytest.mark.parametrize(("owner", "name"), NAMES, ids=lambda part: getattr(part, "__name__", part))
def test_the_name_is_there(owner, name):
    assert hasattr(owner, name), f"{owner.__name__} of {VERSIONS} has no {name}, which ctrlab/keras_hooks.py uses or overrides."


class Number(keras_hooks.Resource):
    """A number, as a hash table of one entry."""

    def __init__(self, value):
        super().__init__(device="CPU:0")
        self.exported = 0
        self.put(tf.constant(value))

    def make_handle(self):
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32, use_node_name_sharing=False)

    def put(self, value):
        return tf.raw_ops.LookupTableInsertV2(
            table_handle=self.resource_handle, keys=tf.constant([0], tf.int64), values=value[None]
        )

    def get(self):
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=self.resource_handle, keys=tf.constant([0], tf.int64), default_value=tf.constant(-1.0)
        )
        return found[0]

    def before_export(self):
        self.exported += 1

    def saved_tensors(self):
        return {"value": self.get()}

    def restore_tensors(self, tensors):
        return self.put(tensors["value"])


def test_a_resource_is_saved_restored_and_exported(tmp_path):
    holder = tf.Module()
    holder.number = Number(3.0)
    path = tf.train.Checkpoint(holder).write(str(tmp_path / "checkpoint"))
    holder.number.put(tf.constant(5.0))
    tf.train.Checkpoint(holder).read(path)
    does(float(holder.number.get()) == 3.0, "_serialize_to_tensors, _restore_from_tensors", "a checkpoint brings the value back")
    holder.get = tf.function(holder.number.get, input_signature=[])
    tf.saved_model.save(holder, str(tmp_path / "served"))
    does(holder.number.exported == 1, "_export_to_saved_model_graph", "it is called once for each export")
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    does(float(loaded.get()) == 3.0, "_create_resource", "a SavedModel makes a resource of its own and fills it")


def test_reading_the_own_handle_makes_nothing():
    class Unmade(keras_hooks.Resource):
        def make_handle(self):
            raise AssertionError

    does(Unmade(device="CPU:0").own_handle is None, "_resource_handle", "it is None before the resource is made")


def test_what_is_tracked_is_in_a_checkpoint(tmp_path):
    layer, value = keras.layers.Layer(), tf.Variable(1.0)
    keras_hooks.track(layer, value, "held")
    path = tf.train.Checkpoint(layer).write(str(tmp_path / "checkpoint"))
    does(
        "held/.ATTRIBUTES/VARIABLE_VALUE" in dict(tf.train.list_variables(path)),
        "_track_trackable",
        "a checkpoint holds the child",
    )


def test_a_restore_is_noticed(tmp_path):
    variable, seen = keras.Variable([1.0]), []
    path = tf.train.Checkpoint(v=variable).write(str(tmp_path / "checkpoint"))
    keras_hooks.wrap_restore(variable, lambda restore: lambda tensors: seen.append(1) or restore(tensors))
    variable.assign([2.0])
    tf.train.Checkpoint(v=variable).read(path)
    does(
        seen == [1] and float(variable.value[0]) == 1.0, "_restore_from_tensors", "tf.train.Checkpoint restores a variable by it"
    )


def test_ops_run_at_once_inside_of_a_graph():
    with tf.Graph().as_default(), keras_hooks.eagerly():
        does(
            tf.executing_eagerly() and int(tf.constant(1) + 1) == 2, "tf.__internal__.eager_context.eager_mode", "ops run at once"
        )


class Noted(keras_hooks.OneStep, keras.optimizers.SGD):
    steps = ()

    def step_all(self, gradients, variables, learning_rate):
        self.steps += (tuple(self.index_of(variable) for variable in variables),)
        self.step_each(gradients, variables, learning_rate)

    def update_step(self, gradient, variable, learning_rate):
        assert isinstance(self.index_of(variable), int)  # here it may be the tf.Variable
        super().update_step(gradient, variable, learning_rate)


def test_an_optimizer_steps_all_variables_in_one_call():
    one, other = keras.Variable([1.0]), keras.Variable([1.0])
    one.overwrite_with_gradient = True
    optimizer = Noted(0.5)
    optimizer.build([one, other])
    optimizer.apply([tf.constant([1.0]), tf.constant([1.0])], [one, other])
    does(optimizer.steps == ((0, 1),), "_backend_update_step", "an optimizer's `apply` calls it once, with all variables")
    stepped = [float(variable.value[0]) for variable in (one, other)]
    does(stepped == [0.5, 0.5], "_overwrite_variable_with_gradient", "no gradient overwrites its variable")


def test_without_it_a_gradient_overwrites_its_variable():
    variable = keras.Variable([1.0])
    variable.overwrite_with_gradient = True
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([variable])
    optimizer.apply([tf.constant([7.0])], [variable])
    does(float(variable.value[0]) == 7.0, "overwrite_with_gradient", "Keras hands the gradient to the variable's `assign`")


class Doubles(keras_hooks.Served, keras.Model):
    def call(self, x):
        return 2 * x

    def serving(self):
        return tf.function(lambda x: self(x), input_signature=[tf.TensorSpec([None], tf.float32, name="x")])


def test_a_model_says_what_it_is_served_by(tmp_path):
    model = Doubles()
    model(tf.ones([1]))
    tf.saved_model.save(model, str(tmp_path / "served"))
    serve = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    [found] = serve(x=tf.constant([3.0])).values()
    does(found.numpy().tolist() == [6.0], "_default_save_signature", "tf.saved_model.save takes the signature from it")


def test_layers_at_any_depth():
    inner = keras.layers.Dense(1)
    model = keras.Sequential([keras.Sequential([inner])])
    does(any(layer is inner for layer in keras_hooks.all_layers(model)), "_flatten_layers", "it gives layers within layers")


def test_our_errors_are_not_wrapped():
    class Refuses(keras.layers.Layer):
        def call(self, x):
            raise CtrlabError("One sentence.")

    with pytest.raises(Exception) as refused:
        Refuses()(np.ones(1, np.float32))
    does(str(refused.value) == "One sentence.", "_keras_call_info_injected", "an error with it leaves a layer's call as it is")


def test_an_assertion_in_a_functions_graph_is_no_news(capfd):
    """TensorFlow logs that nothing waits for it in a plain graph, where a plain session would leave it out."""
    with keras_hooks.function_graph("f").as_default() as graph:
        x = tf.compat.v1.placeholder("float32", [])
        tf.debugging.assert_positive(x)
        y = x + 1
    assert "Assert" in {op.type for op in graph.get_operations()} or any("assert" in op.name for op in graph.get_operations())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = tf.import_graph_def(graph.as_graph_def(), return_elements=[y.name], name="")
        assert session.run(found, {x.name: 2.0}) == [3.0]
    assert "assert" not in capfd.readouterr().err
