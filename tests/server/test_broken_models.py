"""A model that has no version to serve, or an odd name, does not stop the others."""

import logging
import os

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.server import models as server
from ctrlab.serving.processor import Refused


@pytest.fixture
def folder(published, tmp_path):
    """A folder with one complete model, and one whose only version is empty."""
    (tmp_path / "dlrm").symlink_to(published[0] / "dlrm")
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "saved_model.pb").touch()
    return tmp_path


def test_the_others_are_served_and_the_cure_is_told(folder, caplog):
    with caplog.at_level(logging.WARNING):
        models = server.Models(folder)
    try:
        assert set(models.served) == {"dlrm"}
        told = [record.getMessage() for record in caplog.records if record.name == server.__name__]
        assert len(told) == 1 and "Model broken is not served" in told[0] and "export it again" in told[0]
    finally:
        models.close()


def test_where_none_can_be_served_the_sentence_names_the_cure(folder):
    with pytest.raises(Refused, match=r"broken .*export it again"):
        server.Models(folder / "broken")


@pytest.mark.parametrize("name", ["a:b", "a\nb", os.fsdecode(b"\xff")])
def test_a_name_that_no_address_can_have_is_refused_and_stops_no_other(published, tmp_path, caplog, name):
    for each in (name, "dlrm"):
        (tmp_path / each).symlink_to(published[0] / "dlrm")
    models = server.Models(tmp_path)
    models.close()
    assert set(models.served) == {"dlrm"}
    told = [message for message in caplog.messages if "no colon" in message]
    assert len(told) == 1 and f"{str(tmp_path / name)!r} is not served: rename it" in told[0] and told[0].isprintable()
    with pytest.raises(CtrlabError, match="rename it"):
        server.Models(tmp_path / name)
    (tmp_path / "dlrm").unlink()
    with pytest.raises(CtrlabError, match=r"is neither.*rename it"):
        server.Models(tmp_path)
