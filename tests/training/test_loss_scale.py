"""Mixed float16: the loss is scaled, and what comes of it is the float32 training; a step that overflows did not happen."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import CounterFilter, Embedding, Initializer, Options, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows, train_step

ROWS = Options(Initializer("normal", 0.0, 0.3))
RATE, STEPS, BATCH, DIM = 0.5, 4, 8, 4
NEAR = {"mixed_float16": 2 * 2.0**-11, "mixed_bfloat16": 2 * 2.0**-8}
"""How far rows and kernel, below 1, may be from those of float32: two roundings. Measured: 0.15 and 0.09 of one. Training moves
the kernel by 0.23 and rows by 0.10, some ten times the larger of these."""
rng = np.random.default_rng(0)
KEYS = rng.integers(0, 12, (STEPS * BATCH, 3))
LABELS = rng.integers(0, 2, (STEPS * BATCH, 1)).astype("f4")


@pytest.fixture
def policy():
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


class Network(keras.Model):
    """The sum of a bag's rows, times one kernel."""

    def __init__(self, options=ROWS):
        super().__init__(name="network")
        self.embedding = Embedding(DIM, combiner="sum", options=options, name="items")
        self.top = keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.RandomUniform(-0.5, 0.5, seed=3))
        self.top.build((None, DIM))

    def call(self, keys, training=False):
        return self.top(self.embedding(keys, training=training))

    def build(self, input_shape=None):
        self.built = True


def compiled(optimizer, loss=None, options=ROWS, eager=False):
    model = Network(options)
    model.compile(optimizer, loss or keras.losses.BinaryCrossentropy(from_logits=True), run_eagerly=eager)
    return model


def fitted(model, epochs=1):
    model.fit(KEYS, LABELS, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0)
    return model


def held(model):
    """{key: row}, the kernel."""
    state = embedding_variables(model)[0].state()
    order = np.argsort(state.keys)
    return state.keys[order], state.values[order], model.top.kernel.numpy(), state.frequencies[order]


def distance(one, other):
    """The most that a number of rows or kernel differs by."""
    return max(np.abs(one[k] - other[k]).max() for k in (1, 2))


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("name", NEAR)
def test_fit_trains_the_rows_of_float32(policy, name, eager):
    expected, start = (held(fitted(compiled(TouchedRows("sgd", rate), eager=eager))) for rate in (RATE, 0.0))
    assert np.abs(expected[1] - start[1]).max() > 10 * NEAR[name], "the tolerance tells nothing"
    policy(name)
    found = held(fitted(compiled(TouchedRows("sgd", RATE), eager=eager)))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[3], expected[3])
    assert distance(found, expected) < NEAR[name]


def test_gradients_too_small_for_float16_arrive(policy):
    """A loss of 2^-24 gives gradients of 2^-26 and less, which float16 rounds to 0 or by half; rates of 2^24 make up for it."""

    def small(labels, logits):
        return keras.losses.binary_crossentropy(labels, logits, from_logits=True) * 2.0**-24

    def trained(scale=None):
        return held(fitted(compiled(TouchedRows("sgd", RATE * 2.0**24, loss_scale=scale), small)))

    expected, near = trained(), NEAR["mixed_float16"]
    policy("mixed_float16")
    assert distance(trained(), expected) < near
    assert distance(trained(scale=0), expected) > 100 * near, "without the scale nothing arrives"


def test_our_own_step_is_that_of_fit(policy):
    policy("mixed_float16")
    expected = held(fitted(compiled(TouchedRows("adagrad", 0.1))))
    model, optimizer = Network(), TouchedRows("adagrad", 0.1)
    step = train_step(model, optimizer)
    losses = [
        float(step(tf.constant(KEYS[s : s + BATCH]), tf.constant(LABELS[s : s + BATCH]))) for s in range(0, len(KEYS), BATCH)
    ]
    for found, wanted in zip(held(model), expected):
        np.testing.assert_array_equal(found, wanted)
    assert 0.3 < losses[0] < 1.5, "the loss that is told must not be the scaled one"


@pytest.mark.parametrize("eager", [False, True])
def test_a_step_that_overflows_did_not_happen_and_halves_the_scale(policy, eager):
    """Each logit's gradient is 8 times the scale; float16 ends at 65,504, so 2^15 to 2^13 overflow and 2^12 does not."""
    policy("mixed_float16")
    options = Options(Initializer("constant", 0.0), admission=CounterFilter(2))
    model = compiled(TouchedRows("adagrad", 0.1), lambda labels, logits: 8 * BATCH * logits, options, eager)
    optimizer, table = model.optimizer, embedding_variables(model)[0]
    optimizer.build(model.trainable_variables)

    def all_else():
        return [v.numpy().tobytes() for v in (*optimizer.variables, *model.weights) if v is not optimizer.dynamic_scale]

    def fit_one():
        model.fit(KEYS[:BATCH], LABELS[:BATCH], batch_size=BATCH, verbose=0)

    before = all_else()
    for scale in (2.0**15, 2.0**14, 2.0**13):
        assert float(optimizer.dynamic_scale) == scale
        fit_one()
        assert all_else() == before and (table.rows(), table.stats().candidates) == (0, 0)
    fit_one()
    assert float(optimizer.dynamic_scale) == 2.0**12 and int(optimizer.iterations) == 1
    assert table.rows() > 0 and table.stats().candidates > 0


def test_the_scale_grows(policy):
    policy("mixed_float16")
    optimizer = TouchedRows("sgd", 0.01, loss_scale=4.0)
    optimizer.dynamic_growth_steps = 3
    fitted(compiled(optimizer), epochs=2)
    assert float(optimizer.dynamic_scale) == 4.0 * 2 ** (2 * STEPS // 3) and int(optimizer.iterations) == 2 * STEPS


def test_variables_without_a_table_step_as_under_keras_own_scale(policy):
    policy("mixed_float16")

    def trained(optimizer):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Embedding(12, 4), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
        fitted(model)
        return model.get_weights(), model.optimizer

    theirs, scaled = trained(keras.optimizers.SGD(0.1))
    assert type(scaled) is keras.optimizers.LossScaleOptimizer
    ours, optimizer = trained(TouchedRows("sgd", 0.1))
    assert float(optimizer.dynamic_scale) == float(scaled.dynamic_scale)
    for found, expected in zip(ours, theirs):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_saved_model_goes_on(policy, tmp_path):
    policy("mixed_float16")
    optimizer = TouchedRows("adagrad", 0.1, loss_scale=8.0)
    optimizer.dynamic_growth_steps = 3
    inputs = keras.Input((3,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(Embedding(DIM, combiner="sum", options=ROWS, name="items")(inputs)))
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    fitted(model)
    model.save(tmp_path / "model.keras")
    policy("float32")  # what scales is the optimizer's own, saved with it
    again = keras.models.load_model(tmp_path / "model.keras")
    assert float(again.optimizer.dynamic_scale) == 16.0 and int(again.optimizer.step_counter) == 1
    for each in (model, again):
        each.optimizer.dynamic_growth_steps = 3
        fitted(each)
    assert float(again.optimizer.dynamic_scale) == 32.0 and int(again.optimizer.iterations) == 2 * STEPS
    for found, expected in zip(again.get_weights(), model.get_weights()):
        if getattr(expected, "state", None) is None:
            np.testing.assert_array_equal(found, expected)
        else:
            order = [np.argsort(rows.state.keys) for rows in (found, expected)]
            np.testing.assert_array_equal(found.state.values[order[0]], expected.state.values[order[1]])


def again(optimizer):
    return TouchedRows.from_config(optimizer.get_config())


def test_in_float32_nothing_is_scaled(policy):
    optimizer = TouchedRows("sgd", 0.1)
    policy("mixed_float16")  # of another process, in which it is loaded
    for each in (optimizer, again(optimizer)):
        each.build([keras.Variable([1.0])])
        assert len(each.variables) == 2 and float(each.scale_loss(tf.constant(1.0))) == 1.0


def test_another_scale_around_it_is_refused_in_one_sentence():
    with pytest.raises(CtrlabError, match=r"^TouchedRows scales the loss itself[^\n]*$"):
        keras.optimizers.LossScaleOptimizer(TouchedRows("sgd"))


def test_a_layer_in_float16_and_no_scale_are_refused_in_one_sentence():
    """The policy is set for layers only; then Keras scales nothing."""
    layer = Embedding(2, dtype="mixed_float16")
    for unscaled in (TouchedRows("sgd"), again(TouchedRows("sgd")), again(again(TouchedRows("sgd")))):
        with pytest.raises(CtrlabError, match=r"is read in float16, .* give it loss_scale=2\*\*15, or 0 for no scale\.$"):
            unscaled.build(layer.trainable_variables)
    for scale in (0, 8.0):
        for optimizer in (TouchedRows("sgd", loss_scale=scale), again(TouchedRows("sgd", loss_scale=scale))):
            optimizer.build(layer.trainable_variables)
            assert float(optimizer.scale_loss(tf.constant(1.0))) == (scale or 1)


def test_a_config_of_before_it_said_that_nothing_is_scaled():
    def before(optimizer):
        config = optimizer.get_config()
        del config["may_underflow"]
        return TouchedRows.from_config(config)

    layer = Embedding(2, dtype="mixed_float16")
    before(TouchedRows("sgd", loss_scale=0)).build(layer.trainable_variables)
    before(TouchedRows("sgd", loss_scale=8.0)).build(layer.trainable_variables)


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_a_scale_that_can_t_be(scale):
    with pytest.raises(CtrlabError, match="must be at least 0 and finite; received"):
        TouchedRows("sgd", loss_scale=scale)


@pytest.mark.parametrize("restored_first", [False, True])
@pytest.mark.parametrize(
    "make",
    [lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)), lambda: TouchedRows("sgd", 0.1, loss_scale=2.0)],
)
def test_the_scale_is_in_tensorflow_s_checkpoints(make, restored_first, tmp_path):
    """Keras's own, too: code that saves what it trains by `tf.train.Checkpoint` goes on with the scale it had reached."""
    variable, (saved, restored) = keras.Variable([1.0]), (make(), make())
    saved.build([variable])
    saved.dynamic_scale.assign(64.0)
    saved.step_counter.assign(5)
    path = tf.train.Checkpoint(optimizer=saved).write(str(tmp_path / "saved"))
    if not restored_first:
        restored.build([variable])
    tf.train.Checkpoint(optimizer=restored).read(path).expect_partial()
    if restored_first:
        restored.build([variable])
    assert float(restored.dynamic_scale) == 64.0 and int(restored.step_counter) == 5
