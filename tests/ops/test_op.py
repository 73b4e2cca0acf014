"""Each op: which of its ways a set of optimizations gets, and what happens without the compiled library."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys

import pytest

import ctrlab.ops
from ctrlab import _native
from ctrlab.errors import NativeLibraryError
from ctrlab.ops import references
from ctrlab.ops.op import Op
from ctrlab.optimizations import RUNGS

MODULES = [m.name for m in pkgutil.walk_packages(ctrlab.ops.__path__, "ctrlab.ops.") if ".benches" not in m.name]
PYTHON = [name for name in MODULES if not name.rsplit(".", 1)[1].startswith(("_ctrlab", "libctrlab"))]
OPS = {op.name: op for name in PYTHON for op in vars(importlib.import_module(name)).values() if isinstance(op, Op)}


def same(way, function):
    return getattr(way, "__wrapped__", way) is function


def test_every_op_is_found():
    assert {"attention", "gru", "augru", "lookup", "parse_ids", "snapshot"} < OPS.keys() and len(OPS) == 16


@pytest.mark.parametrize("name", OPS)
def test_one_choice(name):
    op = OPS[name]
    others = set(RUNGS) - {op.rung, "stock"}
    assert same(op.pick(()), op.baseline) and same(op.pick(others), op.baseline)
    assert same(op.pick({"stock"}), op.best_stock or op.baseline)
    assert same(op.pick({op.rung}), op.fused) and op.on({op.rung}) and not op.on(others)
    assert next(iter(op.ways)) == "baseline" and list(op.ways)[-1] == "fused"
    assert len(set(map(id, op.ways.values()))) == len(op.ways), "two names of one way"


@pytest.mark.parametrize("name", OPS)
def test_without_the_library_it_is_refused_where_it_is_chosen(name, monkeypatch):
    def missing():
        raise NativeLibraryError("The compiled library is missing.")

    monkeypatch.setattr(_native, "library", missing)
    OPS[name].pick({"stock"})
    with pytest.raises(NativeLibraryError, match="is missing"):
        OPS[name].pick({OPS[name].rung})


def test_a_rung_that_is_not_of_the_ladder_is_refused():
    with pytest.raises(ValueError, match="names 'atention'"):
        dataclasses.replace(OPS["attention"], rung="atention")


def test_references_need_no_tensorflow():
    names = [f"ctrlab.ops.references.{m.name}" for m in pkgutil.iter_modules(references.__path__)]
    program = f"import sys, {', '.join(names)}; sys.exit('tensorflow' in sys.modules)"
    assert names and subprocess.run([sys.executable, "-c", program]).returncode == 0
