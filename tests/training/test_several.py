"""Several steps in one call are the same steps: in order, none too many, and what stops one of them loses none before it."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.training import Checkpoints, SeveralSteps, compile_model, get_state, make_optimizer, set_state, train, train_step
from ctrlab.training.several import TOGETHER

COUNT = 2 * TOGETHER + 5


class Adding:
    """A model of one number: a step adds its batch to it, and the loss is the sum."""

    name = "adding"

    def __init__(self, refuses=-1.0):
        self.sum = tf.Variable(0.0)

        @tf.function
        def step(features, labels):
            with tf.control_dependencies([tf.debugging.Assert(features != refuses, ["refused"])]):
                return self.sum.assign_add(features)

        self.steps = SeveralSteps(step)


def numbers(count=COUNT, first=1):
    return tf.data.Dataset.range(first, first + count).map(lambda i: (tf.cast(i, tf.float32), i))


def sums(count):
    return np.cumsum(np.arange(1, count + 1)).tolist()


def test_every_batch_in_its_order():
    model, heard = Adding(), []
    losses = train(model, None, numbers(), on_step=lambda *each: heard.append(each), step=model.steps).losses
    assert losses == sums(COUNT) and heard == list(enumerate(losses))


@pytest.mark.parametrize("steps", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1])
def test_no_batch_is_taken_that_is_not_trained_on(steps):
    model, batches = Adding(), iter(numbers())
    assert len(train(model, None, batches, steps, step=model.steps).losses) == steps
    assert int(next(batches)[1]) == steps + 1


def test_what_stops_a_step_loses_none_before_it():
    model, heard = Adding(refuses=8.0), []
    with pytest.raises(BadData, match="refused"):
        train(model, None, numbers(), on_step=lambda *each: heard.append(each), step=model.steps)
    assert heard == list(enumerate(sums(7))) and float(model.sum) == sums(7)[-1]
    heard.clear()
    train(model, None, numbers(first=9), on_step=lambda *each: heard.append(each), step=model.steps)
    assert [number for number, _ in heard] == list(range(COUNT)), "a call after one that failed"


def test_an_interrupt_loses_no_step(monkeypatch):
    """Python hears of it when the call is over: what was trained counts."""
    model, heard = Adding(), []
    own = model.steps._several

    def interrupted(*args):
        own(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(model.steps, "_several", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(model, None, numbers(), on_step=lambda *each: heard.append(each), step=model.steps)
    assert heard == list(enumerate(sums(TOGETHER)))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_a_damaged_file_is_one_sentence_from_inside_the_graph(small_batches, tmp_path, name):
    schema, path = small_batches("food_delivery")[0], tmp_path / name
    data.write(data.generate("food_delivery", rows=512, seed=3), schema, path, progress=False)
    content = path.read_bytes()
    middle = len(content) // 2
    bad = b"\nbroken\n" if path.suffix == ".csv" else b"\0" * (middle // 2)
    path.write_bytes(content[:middle] + bad + content[middle + (0 if path.suffix == ".csv" else len(bad)) :])
    model = build("deepfm", schema)
    optimizer = make_optimizer(model)
    with pytest.raises(BadData, match=name) as caught:
        train(model, optimizer, data.read(path, schema, batch_size=64), step=SeveralSteps(train_step(model, optimizer)))
    assert "\n" not in str(caught.value) and "[[" not in str(caught.value)


def test_a_loss_that_is_not_finite_is_the_last():
    model, batches = Adding(), iter(numbers().map(lambda x, y: (tf.where(y == 8, np.nan, x), y)))
    heard = []
    with pytest.raises(BadData, match="received nan from step 7 of adding"):
        train(model, None, batches, on_step=lambda *each: heard.append(each), step=model.steps)
    assert heard == list(enumerate(sums(7))) and int(next(batches)[1]) == 9


class Every:
    """A hook that must be called after each so many steps, and looks at the model then."""

    def __init__(self, model, every):
        self.model, self.every, self.position, self.seen = model, every, 0, []

    def due(self):
        return self.every - self.position % self.every

    def __call__(self, number, loss):
        self.position += 1
        if self.position % self.every == 0:
            self.seen.append((loss, float(self.model.sum)))


def test_a_hook_is_called_when_it_is_due():
    model = Adding()
    hooks = Every(model, 3), Every(model, 7)
    train(model, None, numbers(), on_step=hooks, step=model.steps)
    for hook in hooks:
        assert len(hook.seen) == COUNT // hook.every and all(loss == state for loss, state in hook.seen)


def test_all_hooks_hear_of_all_steps_also_when_one_raises():
    model, heard = Adding(), []

    def stop(number, loss):
        if number == 2:
            raise CtrlabError("Enough.")

    with pytest.raises(CtrlabError, match="Enough"):
        train(model, None, numbers(), on_step=[stop, lambda number, loss: heard.append(number)], step=model.steps)
    assert heard == list(range(TOGETHER)) and float(model.sum) == sums(TOGETHER)[-1]


def test_batches_that_are_no_data_set_come_one_at_a_time():
    model, seen = Adding(), []
    batches = list(numbers(5))
    train(model, None, batches, on_step=lambda number, loss: seen.append((loss, float(model.sum))), step=model.steps)
    assert [loss for loss, _ in seen] == sums(5) and all(loss == state for loss, state in seen)


def test_no_batch_at_all():
    model = Adding()
    with pytest.raises(BadData, match="at least one batch"):
        train(model, None, numbers(0), step=model.steps)


@pytest.fixture(scope="module")
def rows(small_batches):
    """A schema with small tables, and a data set of 8 batches of its rows."""
    schema, batches = small_batches("amazon_reviews")
    spec = tf.nest.map_structure(tf.type_spec_from_value, batches[0])
    return schema, tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec).apply(
        tf.data.experimental.assert_cardinality(len(batches))
    )


def test_a_model_ends_as_it_does_one_step_at_a_time(rows, tmp_path):
    """Variables, slots and counts; and checkpoints lie where they were asked for."""
    model = build("dien", rows[0])
    optimizer = make_optimizer(model)
    first, ends = get_state(model, optimizer), []
    one = train_step(model, optimizer)
    for name, step in (("one", one), ("several", SeveralSteps(one))):
        set_state(first, model, optimizer)
        with Checkpoints(tmp_path / name, model, optimizer, every=3, keep=9) as checkpoints:
            losses = train(model, optimizer, rows[1].take(7), on_step=checkpoints, step=step).losses
        assert checkpoints.position == 7 == len(losses)
        assert {path.name for path in (tmp_path / name).glob("*.safetensors")} == {f"step-00000000{n}.safetensors" for n in "36"}
        ends.append(get_state(model, optimizer) | {"losses": np.array(losses)})
    for name, array in ends[0].items():
        np.testing.assert_allclose(array, ends[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_fit_can_have_it(rows):
    found = []
    for loop in (False, True):
        model = compile_model(build("din", rows[0]), loop=loop)
        found.append(model.fit(rows[1], epochs=1, verbose=0).history["loss"])
        assert int(model.optimizer.iterations) == 8
    assert found[0] == pytest.approx(found[1], rel=1e-5)
