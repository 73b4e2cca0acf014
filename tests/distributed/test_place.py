"""The place of a process, as TF_CONFIG says it."""

import json

import pytest

from ctrlab.distributed.place import Place, given_place
from ctrlab.errors import CtrlabError

TWO = ["a:2222", "[::1]:65535"]


def given(monkeypatch, workers=TWO, index=1, **more):
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": {"worker": workers} | more, "task": {"type": "worker", "index": index}})
    )
    return given_place()


@pytest.mark.parametrize("index", [1, "1"])
def test_a_place_is_read(index, monkeypatch):
    assert given(monkeypatch, index=index) == Place(("a:2222", "[::1]:65535"), 1)
    monkeypatch.setenv("TF_CONFIG", "")
    assert given_place() is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 0.9},
        {"index": True},
        {"index": None},
        {"index": -1},
        {"index": 2},
        {"index": "one"},
        {"workers": {"a:2222": 0, "b:2222": 1}},
        {"workers": "a:2222"},
        {"workers": [], "index": 0},
        {"workers": ["a:2222", "a:2222"]},
        {"workers": [["a:2222"], "b:2222"]},
        {"ps": ["c:2222"]},
    ],
)
def test_what_says_no_place_is_refused(wrong, monkeypatch):
    with pytest.raises(CtrlabError, match=r"^TF_CONFIG must be like .* the index a whole number below their number; received"):
        given(monkeypatch, **wrong)


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 100_000])
def test_what_is_no_place_at_all_is_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(CtrlabError, match=r"^TF_CONFIG must be like"):
        given_place()


@pytest.mark.parametrize("wrong", ["b:99999", "b:0", "b:65536", "b:abc", "b", ":2222", "b:", "b c:2222", 7])
def test_an_address_without_a_port_is_refused(wrong, monkeypatch):
    with pytest.raises(CtrlabError, match=r"^An address in TF_CONFIG is a host and its port, from 1 to 65535") as refused:
        given(monkeypatch, ["a:2222", wrong])
    assert repr(wrong) in str(refused.value)
