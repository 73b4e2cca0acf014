"""The processor with TensorFlow below it, under sanitizers: requests while versions and updates come, and processors go."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from compiled import NATIVE, SIMDJSON, program, sanitized, simdjson, units

from ctrlab import models, serving
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.processor import BEHIND

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from served import seal
from test_one_moment import KEYS, model  # noqa: F401 (a fixture)
from wire_requests import by_columns, by_rows, infer_json, infer_request

pytestmark = pytest.mark.timeout(900)
VERSIONS = range(1, 21)
TENSORFLOW = Path(tf.sysconfig.get_lib())
# Its headers give some classes other fields under a sanitizer, so they must not know of one; libstdc++ must. And they have what
# gcc folds only where it need not look for null pointers.
LIKE_TENSORFLOW = [
    "-U__SANITIZE_ADDRESS__",
    "-U__SANITIZE_THREAD__",
    "-D_GLIBCXX_TSAN",
    "-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute",
]


def build(sanitizers, planted=None):
    """The check of the processor, with `planted` for its source of that name. TensorFlow's libraries, the ops and the engine are
    those that Python has."""
    flags = ["-std=c++20", *sanitized(sanitizers), *LIKE_TENSORFLOW]
    include = TENSORFLOW / "include"
    found = ["-isystem", include, "-isystem", include / "external" / "boringssl" / "src" / "include"]
    of_tensorflow = [*found, *(f for f in tf.sysconfig.get_compile_flags() if f.startswith("-D"))]
    sources = {source.name: source for source in (NATIVE / "processor").glob("*.cc")}
    if planted is not None:
        sources[planted.name] = planted
    check = NATIVE / "processor" / "check" / "check_processor.cc"
    parts = units([*sources.values(), check], ["-isystem", SIMDJSON, *of_tensorflow])
    folders = [word for folder in (TENSORFLOW, BEHIND.parent) for word in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    names = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2", "_ctrlab.so", "libctrlab_engine.so"]
    libraries = [simdjson(flags), *folders, "-Wl,--no-as-needed", *(f"-l:{name}" for name in names)]
    return program("check_processor", parts, flags, libraries=libraries)


def add_requests(folder, tensors):
    """One of each format, and one that is cut of each."""
    (folder / "requests").mkdir()
    (folder / "odd").mkdir()
    body, header = infer_json(tensors, True)
    requests = {
        "0_-1": warm_up.predict_request("ctr", tensors),
        "1_-1": by_columns(tensors),
        "1_-2": by_rows(tensors),
        "2_-1": infer_request(tensors),
        "2_-2": infer_request(tensors, of_raw=False),
        "3_-1": infer_json(tensors, False)[0],
        f"3_{header}": body,
    }
    for name, request in requests.items():
        (folder / "requests" / name).write_bytes(request)
        (folder / "odd" / name).write_bytes(request[: len(request) * 2 // 3])


@pytest.fixture
def with_versions(small_batches, tmp_path):
    """A model of text and lists, some of whose versions are still to come; one is half a version, one can't be loaded."""
    schema, batches = small_batches(DATA_SETS["din"])
    rows = {name: feature[:3] for name, feature in batches[0][0].items()}
    made = models.build("din", schema, embedding="hashed", optimizations="all")
    folder = tmp_path / "versions" / "ctr"
    first = serving.export_model(made, folder, rows=[rows])
    add_requests(folder, inputs.to_tensors(rows, serving.read_manifest(first).inputs, made))
    for version in VERSIONS[1:]:
        shutil.copytree(first, folder / "staged" / str(version))
    (folder / "staged" / "2" / "ctrlab.json").unlink()
    (folder / "staged" / "3" / "saved_model.pb").write_bytes(b"odd")
    seal(folder / "staged" / "3")
    (folder / "moves").write_text("".join(f"staged/{version} {version}\n" for version in VERSIONS[1:]))
    return folder


@pytest.fixture
def with_updates(model):  # noqa: F811
    """A model of ids, 30 of whose updates are still to come."""
    folder, update, _ = model
    add_requests(folder, {"ids": tf.constant(range(len(KEYS)), tf.int64)})
    (folder / "staged").mkdir()
    for u in range(1, 31):
        update(u)
        (folder / "1.updates" / str(u)).rename(folder / "staged" / str(u))
    (folder / "moves").write_text("".join(f"staged/{u} 1.updates/{u}\n" for u in range(1, 31)))
    return folder


def run(program, seconds, *folders):
    suppressed = NATIVE / "processor" / "check"
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "ASAN_OPTIONS": "detect_leaks=1",
        "LSAN_OPTIONS": f"suppressions={suppressed / 'leaks.txt'}:print_suppressions=0",
        "TSAN_OPTIONS": f"suppressions={suppressed / 'races.txt'}:halt_on_error=1",
    }
    ran = subprocess.run([program, str(seconds), *folders], capture_output=True, text=True, env=environment, timeout=500)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    return ran


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_requests_while_versions_and_updates_come_and_processors_go(sanitizers, with_versions, with_updates):
    ran = run(build(sanitizers), 15, with_versions, with_updates)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-20_000:]
    versions, updates = (line.split() for line in ran.stdout.splitlines())
    assert (
        set(versions) <= {f"{version}.0" for version in VERSIONS if version not in (2, 3)} and len(versions) > 2
    )  # a swap compares how fast both are
    assert set(updates) <= {f"1.{u}" for u in range(31)} and len(updates) > 10


PLANTED = {
    "a lock that is not taken": (
        "thread",
        "processor.cc",
        "  const std::lock_guard lock(mutex_);\n  return current_;",
        "  return current_;",
        "ctrlab::processor::Processor::current",
    ),
    "a member that is picked without a lock": (
        "thread",
        "group.cc",
        "  const std::lock_guard lock(mutex_);\n  size_t m = 0;",
        "  size_t m = 0;",
        "ctrlab::processor::Group::Pick",
    ),
    "an answer's values that are gone": (
        "address,undefined",
        "processor.cc",
        "  const Addressee by = {",
        "  values.clear();\n  const Addressee by = {",
        "heap-use-after-free",
    ),
    "an answer that is not given back": (
        "address,undefined",
        "processor_c.cc",
        "delete static_cast<std::string*>(response->owner);",
        "",
        "detected memory leaks",
    ),
}


@pytest.mark.long  # each compiles a source with TensorFlow's headers
@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(planted, with_versions, tmp_path):
    sanitizers, file, right, wrong, report = PLANTED[planted]
    source = (NATIVE / "processor" / file).read_text()
    assert right in source
    (tmp_path / file).write_text(source.replace(right, wrong))
    ran = run(build(sanitizers, tmp_path / file), 9, with_versions)
    assert ran.returncode != 0 and report in ran.stderr, ran.stdout + ran.stderr[-20_000:]
