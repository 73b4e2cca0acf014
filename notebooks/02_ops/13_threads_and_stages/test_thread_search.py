"""The search for threads: from a tuning, and from the record that stands in for it at `tiny`."""

from ctrlab.lessons.topics.threads_and_stages import thread_search

from ctrlab import profiles
from ctrlab.training.threads import Setting
from ctrlab.training.tune import Point, Tuning


def test_the_record_says_that_it_is_one_and_has_tensorflows_own_setting():
    found = thread_search.search(profiles.current("tiny"))
    assert found.device.startswith("recorded on ") and found.chosen in found.pairs
    assert any(ratios == [1.0] * len(ratios) for ratios in found.pairs.values()) and len(found.pairs) > 1
    assert {setting: interval.median > 0 for setting, interval in found.surface().items()} == dict.fromkeys(found.pairs, True)


def test_a_tuning_becomes_a_search_and_a_record(monkeypatch, tmp_path):
    points = Point(Setting(2, 2), (1.0,) * 6), Point(Setting(1, 2), (0.8, 0.9, 0.91236, 1.0, 1.1, 1.2))
    tuning = Tuning("deepfm", ("threads",), Setting(2, 2), points, points[:1], "a machine", 9.0)
    found = thread_search.of(tuning)
    assert found.pairs[1, 2] == [0.8, 0.9, 0.9124, 1.0, 1.1, 1.2] and (found.chosen, found.device) == ((2, 2), "a machine")
    monkeypatch.setattr(thread_search, "record_path", lambda: tmp_path / "threads.json")
    thread_search.write(found)
    again = thread_search.recorded()
    assert (again.pairs, again.chosen, again.device) == (found.pairs, (2, 2), "recorded on a machine")
    monkeypatch.setattr(thread_search, "tune", lambda *_, **__: tuning)
    assert thread_search.search(profiles.current("lesson")) == found
