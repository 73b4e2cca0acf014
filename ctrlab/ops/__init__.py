"""The lab's ops, a module each: an `Op` with its `reference`, `baseline` and `fused` ways, under one signature."""


def register() -> None:
    """Makes the compiled ops known to TensorFlow: call it in a process that loads a SavedModel with some of them.

    Raises:
        NativeLibraryError: there is no compiled library for this TensorFlow.

    >>> register()  # doctest: +SKIP
    >>> served = tf.saved_model.load("served")  # doctest: +SKIP
    """
    from ctrlab import _native

    _native.library()
