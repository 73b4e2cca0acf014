"""`import ctrlab` alone lets Keras and TensorFlow load what this package saved, in a fresh process, in any order of imports."""

import ast
import itertools
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import ctrlab
from ctrlab import imports, registration
from ctrlab.embedding import Embedding, embedding_variables, served
from ctrlab.serving import export_model
from ctrlab.training import TouchedRows, compile_model, get_state

KEYS = np.random.default_rng(0).integers(-50, 50, (64, 3))


def fresh(code: str, *arguments) -> str:
    """The output of a new process."""
    ran = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def in_source() -> dict[str, str]:
    """{class: module} of each class of the package that is decorated with `register_keras_serializable`."""
    found = {}
    for module, path in imports.modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", ()):
                if "register_keras_serializable" in ast.unparse(decorator):
                    assert ast.unparse(decorator).endswith(f"('{registration.PACKAGE}')"), f"{module}.{node.name}"
                    found[node.name] = module.removeprefix("ctrlab.")
    return found


def test_no_class_is_forgotten():
    assert in_source() == registration.CLASSES


def test_each_class_is_where_the_list_says():
    for name, module in registration.CLASSES.items():
        kind = getattr(__import__(f"ctrlab.{module}", fromlist=[name]), name)
        assert keras.saving.get_registered_name(kind) == f"ctrlab>{name}"
        assert keras.saving.get_registered_object(f"ctrlab>{name}") is kind


def own_model():
    keys = keras.Input((3,), dtype="int64")
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Flatten()(Embedding(4, combiner="rows", name="items")(keys))))
    model.compile(TouchedRows("adam_async", 0.1), loss="mse")
    model.fit(KEYS, np.ones(len(KEYS)), batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize("order", list(itertools.permutations(("ctrlab", "keras", "tensorflow"))), ids="-".join)
def test_an_own_keras_model_loads_and_goes_on(tmp_path, order):
    model = own_model()
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "keys.npy", KEYS)
    code = f"""
import sys
{"; ".join(f"import {name}" for name in order)}
import numpy as np
keys = np.load(sys.argv[2])
model = keras.models.load_model(sys.argv[1])
print(float(abs(model.predict(keys, verbose=0)).sum()))
model.fit(keys, np.ones(len(keys)), batch_size=8, verbose=0)
"""
    found = float(fresh(code, tmp_path / "m.keras", tmp_path / "keys.npy"))
    assert found == pytest.approx(abs(model.predict(KEYS, verbose=0)).sum(), rel=1e-5)


@pytest.mark.parametrize("name", ["deepfm", "din"])
def test_a_compiled_model_of_ours_loads(tmp_path, name):
    model = compile_model(ctrlab.build(name, optimizations="all", embedding="variable"))
    model.save(tmp_path / "m.keras")
    code = (
        "import ctrlab, keras, sys; m = keras.models.load_model(sys.argv[1]); print(type(m).__name__, type(m.optimizer).__name__)"
    )
    assert fresh(code, tmp_path / "m.keras").strip() == f"{type(model).__name__} {TouchedRows.__name__}"


def test_weights_load_into_a_built_model(tmp_path):
    model = ctrlab.build("wdl", optimizations="all", embedding="variable", seed=7)
    model.save_weights(tmp_path / "m.weights.h5")
    code = """
import ctrlab, sys
model = ctrlab.build("wdl", embedding="variable", seed=8)
model.load_weights(sys.argv[1])
import numpy as np
print(float(sum(abs(v.numpy()).sum() for v in model.weights if v.shape[0])))
"""
    expected = sum(abs(value).sum() for value in get_state(model).values())
    assert float(fresh(code, tmp_path / "m.weights.h5")) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("first", ["ctrlab", "tensorflow"])
def test_saved_models_load(tmp_path, first):
    model = own_model()
    tf.saved_model.save(model, str(tmp_path / "whole"))
    archive = keras.export.ExportArchive()
    archive.track(served(model))
    archive.add_endpoint("serve", lambda keys: model(keys, training=False), [model.input])
    archive.write_out(str(tmp_path / "served"), verbose=False)
    export_model(ctrlab.build("dlrm", optimizations="all"), tmp_path / "dlrm")
    code = f"""
import sys
import {first}
import ctrlab, tensorflow as tf
print(*[bool(tf.saved_model.load(folder).signatures) for folder in sys.argv[1:]])
"""
    found = fresh(code, tmp_path / "whole", tmp_path / "served", tmp_path / "dlrm" / "1")
    assert found.split() == ["True"] * 3


def test_importing_the_package_alone_imports_neither_keras_nor_tensorflow():
    code = "import ctrlab, sys; print(sorted({'keras', 'tensorflow', 'numpy', 'pyarrow'} & sys.modules.keys()))"
    assert fresh(code).strip() == "[]"


def test_asking_whether_tensorflow_is_there_does_nothing():
    code = """
import ctrlab, importlib.util, sys
spec = importlib.util.find_spec("tensorflow")
assert spec.origin and "tensorflow" not in sys.modules and importlib.util.find_spec("tensorflow_of_nobody") is None
import tensorflow as tf
from ctrlab import _native
print(_native.library.cache_info().currsize, tf.__spec__.loader.get_resource_reader("tensorflow") is not None)
"""
    assert fresh(code).split() == ["1", "True"]


def test_without_a_library_tensorflow_is_imported_and_ours_says_why(tmp_path):
    code = """
import pathlib, ctrlab
from ctrlab import _native
_native.LIBRARY = pathlib.Path("no/such/_ctrlab.so")
import tensorflow as tf
print(float(tf.add(1.0, 2.0)))
from ctrlab.embedding import EmbeddingVariable
try:
    EmbeddingVariable("items", 4)
except ctrlab.errors.NativeLibraryError as problem:
    print(problem)
"""
    three, sentence = fresh(code).splitlines()
    assert three == "3.0" and "_ctrlab.so is missing; run `pip install" in sentence


def test_threads_can_be_set_after_the_ops_are_loaded():
    code = "import ctrlab, tensorflow as tf; tf.config.threading.set_intra_op_parallelism_threads(1); print('set')"
    assert fresh(code).strip() == "set"


def test_a_stand_in_is_overwritten_by_its_class():
    code = """
import ctrlab, keras
name = "ctrlab>Embedding"
stand_in = keras.saving.get_registered_object(name)
from ctrlab.embedding import Embedding
assert stand_in is not Embedding and keras.saving.get_registered_object(name) is Embedding
print(type(stand_in.from_config(Embedding(3).get_config())) is Embedding)
"""
    assert fresh(code).strip() == "True"


def test_the_tables_are_there(tmp_path):
    model = own_model()
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert embedding_variables(loaded)[0].rows() == embedding_variables(model)[0].rows() > 0


def test_a_tensorflow_that_is_installed_under_another_name():
    """With tensorflow-cpu, for example, there is no distribution "tensorflow" with a version."""
    code = """
import importlib.metadata
known = importlib.metadata.version
def version(name):
    if name == "tensorflow":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)
importlib.metadata.version = version
import ctrlab, tensorflow
from ctrlab import _native
print(_native.library.cache_info().currsize)
"""
    assert fresh(code).strip() == "1"
