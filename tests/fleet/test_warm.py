"""The first request of an instance is one that every kind of model answers."""

import json

import pytest

from ctrlab import models, serving
from ctrlab.fleet.instances import warm
from ctrlab.model_names import DATA_SETS
from ctrlab.server import described
from ctrlab.serving.processor import Processor


@pytest.mark.parametrize(("name", "options"), [("dlrm", {"inputs": "ids"}), ("mmoe", {}), ("dien", {"share_users": True})])
def test_a_row_of_nothing_is_answered(small_batches, tmp_path, name, options):
    schema, _ = small_batches(DATA_SETS[name])
    serving.export_model(models.build(name, schema, optimizations="all"), tmp_path / "ctr", **options)
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        inputs = described.model("ctr", [1], processor.info())["inputs"]
        request = {"inputs": [warm.one_row(each["name"], each["datatype"]) for each in inputs]}
        found = json.loads(processor.process(json.dumps(request).encode(), "infer_json").data)
    assert found["outputs"][0]["shape"][0] == 1
