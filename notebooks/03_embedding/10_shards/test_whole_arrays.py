"""Arrays whose elements Python may not ask for one by one."""

import numpy as np
import pytest
from ctrlab.lessons.topics.shards.whole_arrays import FEW, WholeArray

from ctrlab.lessons.check import CheckFailed


@pytest.mark.parametrize("loop", [list, set, WholeArray.tolist, lambda x: np.unique(x).tolist(), lambda x: [*map(int, x[::2])]])
def test_a_loop_in_one_call_is_refused(loop):
    x = np.arange(2 * FEW + 2).view(WholeArray)
    with pytest.raises(CheckFailed, match="NumPy does the work"):
        loop(x)


def test_numpy_and_a_few_numbers_are_free():
    x = np.arange(FEW).view(WholeArray)
    assert list(x) == x.tolist() == list(range(FEW))
    many = np.arange(10_000).view(WholeArray)
    assert np.add.reduceat(np.concatenate([many, many]), [0, 10_000]).tolist() == [49_995_000] * 2
