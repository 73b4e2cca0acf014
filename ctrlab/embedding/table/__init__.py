"""The native table behind an embedding variable, and TensorFlow's view of it.

    resource   a native table by its handle; exports and imports states
    ops        lookup of many columns in one op, its gradient, and the optimizer's step
    cut        changes since a consumer's version; staging of a state that arrives in parts
    proxy      the Keras variable that stands for it

`ctrlab.embedding.variable` combines them.
"""
