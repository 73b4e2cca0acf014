"""Self times by hand; a real profile whose ops, parts and sums are known."""

import json

import numpy as np
import pytest
from pytest import approx
from rich.console import Console

from ctrlab.errors import CtrlabError
from ctrlab.profiling import traces
from ctrlab.profiling.parts import part, part_of
from ctrlab.profiling.traces import EXECUTOR, OpRow, OpTable, Recording, nested, self_times, sum_of


def test_self_time_is_what_nested_events_leave():
    #   outer 0..100: inner 10..40 (with deep 20..25), next 40..70; after it: last 100..110
    events = [("last", 100, 10), ("next", 40, 30), ("deep", 20, 5), ("outer", 0, 100), ("inner", 10, 30)]
    assert self_times(events) == {"outer": 40, "inner": 25, "deep": 5, "next": 30, "last": 10}
    assert self_times([]) == {}
    assert self_times([("a", 5, 10), ("b", 5, 10)]) == {"a": 0, "b": 10}, "of one extent: the second is within the first"
    assert self_times([("a", 0, 10), ("a", 2, 4), ("a", 20, 1)]) == {"a": 11}, "the events of a name are summed"


def recording(*threads: list[tuple[str, int, int]], wall: float) -> Recording:
    """One step; the events' times are in milliseconds, as is `wall`."""
    return Recording(tuple([(n, int(s * 1e9), int(d * 1e9)) for n, s, d in t] for t in threads), 1, wall / 1e3, "by hand")


MATMUL, GATHER, MUL = "tower/MatMul:MatMul", "embedding/Gather:GatherV2", "tower/Mul:Mul"


def test_self_times_beside_each_other_add_up_to_more_than_the_step():
    # 0..40 MatMul on one thread; 10..30 Gather and 30..50 Mul on another: 80 ms of self time in a step of 50 ms
    table = recording([(MATMUL, 0, 40)], [(MUL, 30, 20), (GATHER, 10, 20)], wall=50).to_table()
    assert table.overlap == approx(1.6) and table.threads == 2
    assert sum_of([table]) == "self times add up to 1.60 times the step: ops run on up to 2 threads at once"
    assert sum_of([table.of_part("embedding")]) == sum_of([table.by_type()]) == sum_of([table]), "of the step, not of the part"
    assert sum_of([table]) in table.to_table().caption and sum_of([table.of_part("nothing")]).endswith("0.00 times the step")


def test_self_times_one_after_the_other_need_no_reason():
    one = recording([(MATMUL, 0, 40), (GATHER, 10, 20)], [(MUL, 40, 5)], wall=50).to_table()
    assert one.threads == 1 and sum_of([one]) == "self times add up to 0.90 times the step"
    two = recording([(MATMUL, 0, 40)], [(MUL, 0, 20)], [(GATHER, 20, 10)], wall=40).to_table()
    assert sum_of([one, two]) == "self times add up to 0.90 to 1.75 times the step: ops run on up to 2 threads at once"


def test_events_that_overlap_by_a_little_are_one_after_the_other():
    found = recording([(EXECUTOR, 0, 20.001), (MATMUL, 5, 10), (EXECUTOR, 20, 30.001), (EXECUTOR, 50, 10)], wall=60).to_table()
    assert {r.op_type: (r.calls, r.seconds) for r in found.rows} == {"executor": (3, approx(0.05)), "MatMul": (1, approx(0.01))}
    assert nested([("b", 5, 9), ("a", 0, 10), ("c", 6, 8)]) == [("a", 0, 5), ("b", 5, 9), ("c", 6, 8)]
    assert nested([("outer", 0, 100), ("a", 10, 15), ("b", 20, 30)]) == [("outer", 0, 100), ("a", 10, 10), ("b", 20, 30)]
    proper = [("a", 0, 10), ("b", 0, 5), ("c", 5, 5), ("d", 10, 1), ("e", 11, 0)]
    assert nested(proper[::-1]) == proper and nested([]) == []


def test_a_recording_takes_other_self_times():
    found = recording([(MATMUL, 0, 40), (GATHER, 10, 20)], wall=40)
    assert {row.op_type: row.share for row in found.to_table().rows} == approx({"MatMul": 0.5, "GatherV2": 0.5})
    lengths = found.to_table(lambda events: {name: length for name, _, length in events})
    assert {row.op_type: row.share for row in lengths.rows} == approx({"MatMul": 2 / 3, "GatherV2": 1 / 3})


def test_parts_are_found_in_op_names():
    for name, expected in {
        "deepfm/linear_1/indicator/one_hot_3": "linear",
        "gradient_tape/deepfm_1/deep_1/dense_0_1/MatMul/MatMul_1": "tower",
        "dien/gru_1/while/body/_12/dien/gru_1/while/Tanh": "gru",
        "dien/auxiliary_2/auxiliary_tower/dense_0/MatMul": "auxiliary",
        "adam_async/optimizer_8/Gather": "optimizer",
        "gradient_tape/logistic_loss/Select": "loss",
        "mmoe/gate_0/dense_0/MatMul": "experts",
        "concat_16": "other",
        "embedding": "other",
    }.items():
        assert part_of(name) == expected, name


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match=r"must be one of .*received 'grus'"):
        part("grus")


@pytest.fixture(scope="module")
def table() -> OpTable:
    """Three steps of a lookup, a loop of seven products in the part "gru", and their gradients."""
    import tensorflow as tf

    weights, rows = tf.Variable(tf.eye(64)), tf.Variable(tf.ones([1000, 64]))

    @part("gru")
    def loop(h):
        return tf.while_loop(lambda i, _: i < 7, lambda i, h: (i + 1, tf.tanh(h @ weights)), [0, h])[1]

    @part("embedding")
    def lookup(ids):
        return tf.gather(rows, ids)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loop(lookup(ids)))
        return loss, tape.gradient(loss, [weights, rows])

    numbers = iter(tf.data.Dataset.range(100).map(lambda i: tf.range(512) + tf.cast(i, tf.int32)).prefetch(2))
    return traces.profile(lambda: step(next(numbers)), steps=3, title="a loop")


def test_calls_are_counted_by_type_and_part(table):
    loop = {row.op_type: row.calls for row in table.of_part("gru").rows if row.name.endswith("/Tanh") or row.op_type == "Tanh"}
    assert 7 in loop.values()
    products = [r for r in table.of_part("gru").rows if "MatMul" in r.op_type]
    assert sum(r.calls for r in products) == 7 * 3, "one forward and two backward each"
    assert any(row.op_type == "ResourceGather" and row.calls == 1 for row in table.of_part("embedding").rows)
    assert table.share(part="input") > 0 and table.share(part="executor") > 0


def test_shares_and_times_are_sane(table):
    assert sum(row.share for row in table.rows) == approx(1)
    assert 0 < table.seconds < table.wall * 64, "self times add up to no more than wall time x threads"
    assert all(row.seconds >= 0 and row.calls > 0 for row in table.rows)
    assert [r.seconds for r in table.rows] == sorted((r.seconds for r in table.rows), reverse=True)
    assert "TensorFlow" in table.device


def test_grouping_keeps_the_sums(table):
    for grouped in (table.by_part(), table.by_type()):
        assert grouped.seconds == approx(table.seconds)
        assert len(grouped.rows) < len(table.rows)
    assert table.by_part().share(part="gru") == approx(table.share(part="gru"))
    assert len({row.part for row in table.by_part().rows}) == len(table.by_part().rows)


def test_a_table_can_be_kept_and_shown(table):
    assert OpTable.from_json(json.loads(json.dumps(table.to_json()))) == table
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table.to_table(most=3))
    text = console.export_text()
    assert "a loop" in text and "more" in text and "share" in text and "ms per step" in text
    one = OpTable((OpRow("MatMul", "", "", 1, 0.5, 1.0),), 1, 0.5, "by hand").to_table()
    assert [column.header for column in one.columns] == ["op type", "calls", "self ms", "share"]


def test_a_profile_without_ops_is_one_sentence():
    with pytest.raises(CtrlabError, match="at least one TensorFlow op"):
        traces.profile(lambda: np.ones(3), steps=1)


def test_two_profiles_at_once_are_refused():
    import tensorflow as tf

    with pytest.raises(CtrlabError, match="Only one profile"):
        traces.profile(lambda: traces.profile(lambda: tf.ones([2]) * 2, steps=1, warm_ups=0), steps=1, warm_ups=0)
    assert traces.profile(lambda: tf.ones([2]) * 2, steps=1).rows, "the first one was stopped"


def test_our_own_ops_are_counted_where_they_stand():
    import tensorflow as tf

    from ctrlab.ops import indicator

    columns, kernel = [tf.constant([0, 2], tf.int64)], tf.ones([3, 1])

    @tf.function
    def step():
        with tf.name_scope("linear"):
            return indicator.fused(columns, [3], kernel) + 1.0

    table = traces.profile(step, steps=3)
    assert [(row.op_type, row.calls) for row in table.of_part("linear").rows if ">" in row.op_type] == [("Ctrlab>Indicator", 1)]
