"""Sliders over an answer."""

from ctrlab.lessons.explore import explore


def test_the_answer_follows_every_slider():
    box = explore(lambda V, L: f"{V * L}", V=[1, 10, 1_000], L=[2, 3])
    v, length, answer = box.children
    assert (v.value, length.value, answer.value) == (10, 3, "30")
    v.value = 1_000
    assert answer.value == "3000"
    length.value = 2
    assert answer.value == "2000"
    assert v.options[-1] == ("1,000", 1_000)
