"""The table behind an embedding variable, as TensorFlow's ops see it.

    resource   a native table by its handle: states in and out
    ops        lookup of many columns in one op, its gradient, and the optimizer's step
    cut        what changed since a consumer's version, and a state that comes in parts
    proxy      the Keras variable that stands for it

`ctrlab.embedding.variable` puts them together.
"""
