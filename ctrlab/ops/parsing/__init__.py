"""Turns raw columns into the ids and numbers that a model computes with; each op has a reference, a baseline and a fused form.

    ids      text -> cut at a separator -> the last events -> FarmHash64 modulo buckets, or a word's place, or the number
    numbers  text -> cut -> float32 -> mean -> log1p or min-max, side by side

In the baseline a column is a chain of up to twenty ops, each of which writes all its strings to memory for the next one. In the
fused form one op takes all id columns of a schema, and another all numbers. They read a text where it lies: no part of it ever
becomes a string of its own.

Source: the ops of NicePerf (StringSplitToNumberAndMean, SparseSequenceLength) in the DeepRec CTR contest. The second
needs no op here: the lists of `ids` have splits, and the lengths are their differences.
"""

from ctrlab.ops.parsing import ids, numbers

__all__ = ["ids", "numbers"]
