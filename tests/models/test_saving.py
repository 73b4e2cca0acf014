"""A model's description, from which it is made again for its checkpoints."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from ctrlab import models, training
from ctrlab.embedding import Options, Storage
from ctrlab.embedding.choices import BinaryCode, Variable
from ctrlab.embedding.formats.saves import Save, last_whole
from ctrlab.errors import CtrlabError
from ctrlab.models.saving import description, from_description
from ctrlab.training.restoring import restore


@pytest.mark.parametrize("name", models.MODELS)
def test_the_described_model_has_the_same_weights(name, tmp_path):
    stored = Variable(Options(storage=Storage(str(tmp_path / "rows"), memory_rows=10)))
    model = models.build(name, embedding=BinaryCode() if name == "dlrm" else stored, seed=7)
    found = json.loads(json.dumps(description(model)))
    twin = from_description(found, "all")
    assert type(twin) is type(model) and twin.rungs and not model.rungs
    assert [(v.path, v.shape) for v in twin.variables] == [(v.path, v.shape) for v in model.variables]
    assert twin.schema == model.schema and twin.seed == 7
    assert all(not getattr(choice, "options", Options()).storage for choice in twin.choices.values())
    assert any(getattr(choice, "options", Options()).storage for choice in model.choices.values()) == (name != "dlrm")


FULL_DISK = """
import resource, sys
import ctrlab
model = ctrlab.build("deepfm")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    model.save(sys.argv[1])
except OSError:
    sys.exit(7)
"""


def test_a_full_disk_leaves_the_earlier_file(small_batches, tmp_path):
    schema, batches = small_batches("food_delivery")
    model, link = models.build("deepfm", schema), tmp_path / "link.keras"
    link.symlink_to("keep.keras")
    for path in (tmp_path / "keep.keras", str(link)):
        model.save(path)
    assert link.is_symlink() and sorted(path.name for path in tmp_path.iterdir()) == ["keep.keras", "link.keras"]
    before = (tmp_path / "keep.keras").read_bytes()
    ran = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path / "keep.keras"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 7, ran.stderr
    assert (tmp_path / "keep.keras").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep.keras", "link.keras"]
    features = batches[0][0]
    found = keras.models.load_model(link)(features)
    np.testing.assert_array_equal(found, model(features))


def test_another_model_has_none():
    assert description(keras.Sequential([keras.layers.Dense(1)])) == {}


@pytest.mark.parametrize(
    "damage", [{}, {"kind": "dlrm"}, {"schema": {"name": "x"}}, {"seed": "?"}, {"embedding": 3}, {"schema": []}]
)
def test_what_is_no_description_is_refused(damage):
    found = description(models.build("dlrm"))
    odd = damage if not damage or "kind" in damage else found | damage
    with pytest.raises(CtrlabError, match=r"described by kind|A seed must be a whole number"):
        from_description(odd)


def test_a_checkpoint_describes_its_model(small_batches, tmp_path):
    schema, batches = small_batches("criteo")
    model = models.build("dlrm", schema, embedding={"C1": "variable"})
    optimizer = training.make_optimizer(model)
    step = training.train_step(model, optimizer)
    with training.Checkpoints(tmp_path, model, optimizer, every=1, full_every=9) as checkpoints:
        for number, batch in enumerate(batches[:3], 1):
            step(*batch)
            checkpoints(number, 0.0)
    links, _, _ = last_whole(tmp_path, lambda links: links)
    assert len(links) == 3 and all(link.save.model == json.loads(json.dumps(description(model))) for link in links)
    twin = from_description(links[-1].save.model, "all")
    restore(tmp_path, twin)
    features = batches[0][0]
    assert abs(twin(features).numpy() - model(features).numpy()).max() < 1e-5


def test_an_earlier_save_has_no_description(tmp_path):
    metadata = Save.full(1, 1, {}).to_metadata()
    del metadata["model"]
    assert Save.from_metadata(metadata, tmp_path).model == {}
