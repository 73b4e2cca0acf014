"""Each module of ctrlab/data/sets is a data set, and the cache knows what its rows are made by."""

import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ctrlab import imports
from ctrlab.data import SCHEMAS, cache, make, sets

FOLDER = Path(sets.__file__).parent


def test_each_module_is_a_set_of_its_name():
    assert sets.RAWS.keys() == {path.stem for path in FOLDER.glob("[!_]*.py")}
    assert [generator.schema.name for generator in sets.GENERATORS.values()] == list(sets.GENERATORS)
    assert sets.PUBLISHED.keys() <= SCHEMAS.keys()
    statistics = {path.stem for path in (imports.PACKAGE / "data" / "statistics").glob("*.json")}
    assert statistics == SCHEMAS.keys()


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A package with the sources of ctrlab, to be changed."""
    root = tmp_path_factory.mktemp("sources") / "ctrlab"
    shutil.copytree(imports.PACKAGE, root, ignore=lambda _, names: {n for n in names if n.endswith((".so", "__pycache__"))})
    return root


def used_files(name: str, root: Path = imports.PACKAGE) -> list[Path]:
    known = imports.modules(root)
    return [known[module] for module in imports.used(make.__name__, f"ctrlab.data.sets.{name}", known=known)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_makes_the_rows_is_in_the_fingerprint(name, copy):
    before = cache.fingerprint(name, copy)
    assert before == cache.fingerprint(name)
    used = [*used_files(name, copy), copy / "data" / "statistics" / f"{name}.json"]
    for file in used:
        text = file.read_text()
        file.write_text(text + "\n")
        assert cache.fingerprint(name, copy) != before, file
        file.write_text(text)


def test_what_does_not_make_the_rows_is_in_no_fingerprint(copy):
    before, used = cache.fingerprint("criteo", copy), used_files("criteo", copy)
    others = {file: file.read_text() for file in copy.rglob("*.py") if file not in used}
    assert {copy / "data" / "csv.py", copy / "data" / "sets" / "taobao.py", copy / "models" / "wdl.py"} <= others.keys()
    for file, text in others.items():
        file.write_text(text + "\n")
    assert cache.fingerprint("criteo", copy) == before
    for file, text in others.items():
        file.write_text(text)


def test_an_import_that_is_new_is_in_the_fingerprint(copy):
    before, file = cache.fingerprint("criteo", copy), copy / "data" / "words.py"
    text = file.read_text()
    file.write_text(text.replace("import zlib", "import zlib\nfrom ctrlab.embedding.formats import crc"))
    with_crc = cache.fingerprint("criteo", copy)
    crc = copy / "embedding" / "formats" / "crc.py"
    crc.write_text(crc.read_text() + "\n")
    assert len({before, with_crc, cache.fingerprint("criteo", copy)}) == 3
    file.write_text(text)


@pytest.fixture
def called():
    """The files of ctrlab whose functions are called from now on, in this thread."""
    import sklearn.metrics  # noqa: F401  before it counts calls, which takes long
    import tensorflow  # noqa: F401

    found = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    watch = imports.PACKAGE / "registration.py"  # looks at every import there is
    yield lambda: {Path(name) for name in found if Path(name).is_relative_to(imports.PACKAGE)} - {watch}
    sys.setprofile(None)


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_other_code_takes_part_in_making_rows(name, called, tmp_path):
    make.generated(name, 200, 0, tmp_path, progress=False)
    for format in ("csv", "tfrecord"):
        make.copied({tmp_path / "test.parquet": 40}, SCHEMAS[name], format, False, tmp_path, progress=False)
    make.copied({tmp_path / "train.parquet": 200}, SCHEMAS[name].with_buckets(50), "tfrecord.gz", True, tmp_path, progress=False)
    assert len(called()) > 9 and called() <= set(used_files(name))


def test_no_other_code_takes_part_in_converting(real_data, called, tmp_path):
    made = make.converted("taobao", str(real_data), tmp_path, progress=False)
    assert made["rows"] == pq.read_metadata(tmp_path / "train.parquet").num_rows
    assert called() <= set(used_files("taobao"))
