"""A model that has no version to serve does not stop the others."""

import logging

import pytest

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
