"""What tests share: the seed, TensorFlow's quiet start, and the real samples where they are."""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CTRLAB_PROFILE", "tiny")

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real samples, or a skip that says how to have them."""
    folder = os.environ.get("CTRLAB_REAL_DATA")
    if not folder:
        pytest.skip("CTRLAB_REAL_DATA is not set: point it at the folder of real samples to run this test")
    return Path(folder)
