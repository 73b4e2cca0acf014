"""The charts of what workers tell."""

from ctrlab.lessons.topics.shards import charts


class Lab:
    def __init__(self):
        self.charts = {}

    def live_chart(self, title, y):
        from ctrlab.profiling.charts import LiveChart

        self.charts[title] = LiveChart(title, y)
        return self.charts[title]


def test_charts_have_a_curve_per_worker():
    lab = Lab()
    with charts.live_charts(lab, {"loss": "Loss", "megabytes": "Sent, so far, MB"}) as told:
        told(1, 0, {"loss": 0.7, "megabytes": 2.0})
        told(1, 1, {"loss": 0.6, "megabytes": 3.0})
        told(0, 0, {"loss": 0.7, "megabytes": 1.0})
    assert list(lab.charts) == ["Loss", "Sent, so far"]
    assert lab.charts["Sent, so far"].history == {"worker 0": ([0], [1.0]), "worker 1": ([0, 1], [2.0, 3.0])}
    assert list(lab.charts["Loss"].history) == ["worker 0", "worker 1"]
