"""Quality on the real samples: what each model must reach within two epochs. Slow: some ten seconds each on an idle machine."""

import itertools

import pytest

from ctrlab import data, training
from ctrlab.models import build

EPOCHS = 2
BARS = {
    ("din", "rees46"): {"label": 0.90},
    ("dien", "rees46"): {"label": 0.90},
    ("din", "amazon_reviews"): {"label": 0.72},
    ("dien", "amazon_reviews"): {"label": 0.72},
    ("mmoe", "census_income"): {"income_50k": 0.94, "never_married": 0.99},
    ("deepfm", "criteo"): {"label": 0.73},
}


@pytest.mark.parametrize(("name", "data_set"), BARS)
def test_reaches_its_bar(name, data_set, real_data):
    files = data.prepare(data_set, source="real", progress=False)
    model = build(name, files.schema, "all")
    optimizer = training.make_optimizer(model.hyper)
    step, predict = training.train_step(model, optimizer), training.predict_step(model)
    size = model.hyper.batch_size
    rows = iter(files.read_train(size, shuffle=20_000, seed=1, epochs=EPOCHS, drop_remainder=True))
    epoch, bars, found = files.rows // size, BARS[name, data_set], []
    # The test rows are asked after the first epoch and then four times in the second, so that no more is trained than must be.
    for steps in [epoch] + [-(-epoch // 4)] * 4:
        training.train(model, optimizer, itertools.islice(rows, steps), step=step)
        found.append(training.evaluate(model, files.read_test(2_048), predict).auc)
        if all(found[-1][label] >= bar for label, bar in bars.items()):
            print(
                f"{name} {data_set}: AUC {found[-1]} after {epoch + (len(found) - 1) * -(-epoch // 4)} steps, epochs of {epoch}"
            )
            return
    raise AssertionError(f"{name} on {data_set} must reach {bars}; it had {found}")
