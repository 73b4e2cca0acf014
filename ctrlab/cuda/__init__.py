"""The CUDA twins of the kernels: builds, checks and times them on any machine with a GPU and torch or CuPy.

`python -m ctrlab.cuda` is the only command. It needs no TensorFlow. With `--emulated` it needs no GPU: the same code runs on CPU
threads, which tests its logic but not its speed.
"""
