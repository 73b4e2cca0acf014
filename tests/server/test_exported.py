"""An exported model: its requests are answered, it gets new versions, and its folder goes with it."""

import json

from ctrlab.lessons.topics.session_groups.one_request import OneRequest

from ctrlab import profiles
from ctrlab.server.exported import Exported


def test_an_exported_model_answers_and_goes():
    model = Exported("din", profiles.current("tiny"), "none", most_rows=8)
    assert model.export() == 2
    with model.server(most_waiting=1) as server:
        answer = server.submit("din", model.request(3), "json").result(60)
    assert answer.version == 2 and len(json.loads(answer.data)["outputs"]) == 3
    one = OneRequest(model.folder, model.tensors(8))
    assert model.processor().process(one.request, "predict").version == 2
    with one.session() as ask:
        assert ask().shape == (8, 1)
    model.close()
    assert not model.folder.exists()
