"""Dataclasses as JSON and back."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from ctrlab.errors import BadData
from ctrlab.plain import Plain


@dataclass(frozen=True)
class Inner:
    share: float


@dataclass(frozen=True)
class Outer(Plain):
    name: str
    rows: tuple[int, ...] = ()
    by_name: dict[str, Inner] = field(default_factory=dict)
    inner: Inner | None = None


def test_there_and_back():
    value = Outer("a", (1, 2), {"x": Inner(0.5)}, Inner(3))
    text = json.dumps(value.to_json())
    assert text == '{"name": "a", "rows": [1, 2], "by_name": {"x": {"share": 0.5}}, "inner": {"share": 3}}'
    assert Outer.from_json(json.loads(text)) == value


def test_what_is_no_number_stays_so():
    back = Outer.from_json(json.loads(json.dumps(Outer("a", inner=Inner(math.nan)).to_json())))
    assert math.isnan(back.inner.share)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "missing required field `name`"),
        ({"name": 1}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"name": "a", "inner": {"share": "half"}}, r"at `\$\.inner\.share`"),
        ({"name": "a", "unknown": 1}, r"it has no field \$\.unknown"),
        ({"name": "a", "by_name": {"x": {"share": 1, "odd": 2}}}, r"it has no field \$\.by_name\.x\.odd"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_other_content_is_refused(content, said):
    with pytest.raises(BadData, match=f"^Outer can't be read: .*{said}"):
        Outer.from_json(content)


def test_timing_needs_no_codec():
    """A GPU machine and a peer's environment time without msgspec."""
    program = "import sys; sys.modules['msgspec'] = None; import ctrlab.profiling.timing, ctrlab.profiling.processes"
    subprocess.run([sys.executable, "-c", program], check=True)
