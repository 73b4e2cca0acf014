"""All private names of Keras and TensorFlow that we use or override, each with its reason; those of TensorFlow's cluster of
workers are in `ctrlab.distributed.engine`.

No public name does the same, and another version may drop or change them: tests/test_keras_hooks.py shows which. The rest of the
package uses the public names of this module. One more is an attribute of `ctrlab.errors.CtrlabError`, which must not depend on
Keras: `_keras_call_info_injected`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import keras
import tensorflow as tf


class Resource(tf.saved_model.experimental.TrackableResource):
    """A native object that TensorFlow tracks, writes into checkpoints and SavedModels, and restores.

    `TrackableResource` is public; the four methods that its subclasses define are not.
    """

    def make_handle(self) -> tf.Tensor:
        """Makes a new object and returns its handle. It is called once for this process, and in the graph of each SavedModel."""
        raise NotImplementedError

    def before_export(self) -> None:
        """Called before the object is written to a SavedModel; raises if that is impossible."""

    def saved_tensors(self) -> dict[str, tf.Tensor]:
        """The tensors that a checkpoint or SavedModel writes."""
        raise NotImplementedError

    def restore_tensors(self, tensors: dict[str, tf.Tensor]):
        """Restores the object from the tensors that `saved_tensors` gave."""
        raise NotImplementedError

    @property
    def own_handle(self) -> tf.Tensor | None:
        """The handle that `make_handle` made. Unlike `resource_handle`, reading it makes no new object."""
        return self._resource_handle

    def _create_resource(self):
        return self.make_handle()

    def _export_to_saved_model_graph(self, *arguments, **options):
        self.before_export()
        return super()._export_to_saved_model_graph(*arguments, **options)

    def _serialize_to_tensors(self):
        return self.saved_tensors()

    def _restore_from_tensors(self, tensors):
        return self.restore_tensors(tensors)


def track(owner, child, name: str) -> None:
    """Lets a checkpoint of `owner` hold `child`.

    An attribute would do so too, but not one in a Keras dictionary, nor one that a weak reference must not keep alive.
    """
    owner._track_trackable(child, name)


def wrap_restore(variable: keras.Variable, wrapper: Callable[[Callable], Callable]) -> None:
    """Replaces the method with which `tf.train.Checkpoint` restores a variable (not `assign`) by `wrapper(method)`."""
    variable._restore_from_tensors = wrapper(variable._restore_from_tensors)


def eagerly() -> contextlib.AbstractContextManager:
    """Ops in this block run at once, even while a SavedModel's graph is made, which `tf.init_scope` does not leave."""
    return tf.__internal__.eager_context.eager_mode()


def function_graph(name: str) -> tf.Graph:
    """An empty graph of the kind that `tf.function` traces. In a plain `tf.Graph` each assertion logs that nobody uses it."""
    return tf.__internal__.FuncGraph(name)


class OneStep:
    """A base class that comes before an optimizer's Keras class: one call steps all variables, and no gradient overwrites a
    variable.

    The public `update_step` gets one variable at a time; and Keras hands the gradient of a variable that says
    `overwrite_with_gradient` to its `assign` before any public method sees it.
    """

    def step_all(self, gradients, variables, learning_rate) -> None:
        """Steps all variables, inside or outside of a distribution strategy."""
        raise NotImplementedError

    def step_each(self, gradients, variables, learning_rate) -> None:
        """Keras's way: `update_step` for each variable."""
        super()._backend_update_step(gradients, variables, learning_rate)

    def index_of(self, variable) -> int:
        """The index of a variable (Keras's, or the `tf.Variable` in it) among those with which the optimizer was built."""
        return self._get_variable_index(variable)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        self.step_all(grads, trainable_variables, learning_rate)

    def _overwrite_variable_with_gradient(self, variable):
        return False


class Served:
    """A base class that comes before `keras.Model`: the model itself defines what `tf.saved_model.save` serves under `serve`. If
    a model is not Functional, Keras assumes float32 for every input, and can't describe ragged ones.
    """

    def serving(self):
        """The served function: a `tf.function` of the features."""
        raise NotImplementedError

    _default_save_signature = property(lambda self: self.serving())


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """The model and all layers in it, at any depth; the public `layers` are those of the first only."""
    return list(model._flatten_layers())
