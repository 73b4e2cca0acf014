"""A notebook's functions arrive in another process as they were."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from ctrlab.errors import CtrlabError
from ctrlab.lessons.shipped import packed

NOTEBOOK = """
import numpy as np

lock = __import__("threading").Lock()  # can't be pickled
scale, keys = 10, lock


def helper(x, *, by=3):
    return x * by


def ask(x, times=2):
    if x == 0:
        return np.zeros(1, np.int64)
    squares = [scale * helper(each) for each in range(x)]
    return np.array(squares) + times * len({}.keys()) + ask(x - 1)[0]


def outer(n):
    return lambda x: (n, helper(x))


def uses_the_lock():
    return lock
"""


@pytest.fixture
def notebook():
    """Names of a notebook, whose functions say that they are of `__main__`."""
    names = {"__name__": "__main__"}
    exec(compile(NOTEBOOK, "<cell>", "exec"), names)
    return names


def elsewhere(data: bytes, call: str) -> str:
    """What a process that knows nothing of the notebook prints of `call`, with the function as f."""
    code = f"import pickle, sys; f = pickle.loads(sys.stdin.buffer.read()); print({call})"
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


def test_a_function_takes_along_what_it_uses(notebook):
    """Another function, a module, a number, its defaults and itself; not what only has an attribute's name."""
    right = notebook["ask"](4)
    assert elsewhere(packed(notebook["ask"]), "f(4).tolist()") == str(right.tolist())


def test_what_a_function_holds_in_its_closure(notebook):
    assert pickle.loads(packed((notebook["outer"](7), 5)))[0](4) == (7, 12)


def test_what_can_be_imported_is_named():
    assert pickle.loads(packed(np.unique)) is np.unique and pickle.loads(packed(packed)) is packed
    assert len(packed(packed)) < 100


def test_what_can_not_go_along_is_one_sentence(notebook):
    for thing in (notebook["uses_the_lock"], threading.Lock()):
        with pytest.raises(
            CtrlabError, match=r"uses goes with it to other processes, and this can't: cannot pickle '_thread\.lock'"
        ):
            packed(thing)
