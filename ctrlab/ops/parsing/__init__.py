"""From raw columns to what a model computes with: ids, numbers, lengths; each with a reference, a baseline and a fused form.

    ids              text -> cut at a separator -> the last events -> FarmHash64 modulo buckets, or a word's place, or the number
    numbers          text -> cut -> float32 -> mean -> log1p or min-max, side by side
    sequence_length  a sparse matrix -> the length of each row

In the baseline a column is a chain of up to twenty ops, each of which writes all its strings to memory for the next one. Fused,
one op takes all id columns of a schema and one all numbers; a text is read where it lies, no part of it ever a string of its own.

Source: the ops of NicePerf (SparseSequenceLength, StringSplitToNumberAndMean) in the DeepRec CTR contest.
"""

from ctrlab.ops.parsing import ids, numbers, sequence_length

__all__ = ["ids", "numbers", "sequence_length"]
