import numpy as np
import pytest
from served import first


@pytest.fixture(scope="session")
def trained(small_batches, few_batches):
    """`trained(model, ...)` -> a model whose weights and statistics are all other than at first, and a batch.

    A choice of `embedding` is that of all hashed tables. Embedding variables have the rows of the batch's first half. With
    `few_columns` the model has some columns of each kind."""
    from ctrlab import models, training
    from ctrlab.embedding import embedding_variables
    from ctrlab.model_names import DATA_SETS

    def of(name, embedding=None, few_columns=False, **options):
        schema, batches = (few_batches if few_columns else small_batches)(DATA_SETS[name])
        if embedding is not None and not isinstance(embedding, dict):
            hashed = {column.table for column in schema.id_columns if column.encoding == "hash"}
            embedding = dict.fromkeys(hashed, embedding)
        model = models.build(name, schema, embedding=embedding or "hashed", **options)
        features, labels = batches[3]
        if embedding_variables(model):
            step = training.train_step(model, training.make_optimizer(model))
            step({column: feature[:32] for column, feature in features.items()}, labels[:32])
        proxies = {id(table.proxy) for table in embedding_variables(model)}
        rng = np.random.default_rng(5)
        for weight in model.weights:
            if weight.dtype != "string" and id(weight) not in proxies:
                weight.assign(weight + rng.standard_normal(weight.shape) * 0.02)
        found = model(features, training=False).numpy()
        assert found.std() > 1e-4 and abs(found).max() < 5, "answers that tell a change of the weights"
        return model, features

    return of


@pytest.fixture(scope="session")
def din(trained, tmp_path_factory):
    """The folder of a model with one version, the model, and the tensors of a right request."""
    from ctrlab import serving
    from ctrlab.serving import inputs

    model, features = trained("din", optimizations="all", embedding="hashed")
    out = tmp_path_factory.mktemp("models") / "ctr"
    folder = serving.export_model(model, out, rows=[first(features, 3)])
    return out, model, features, inputs.to_tensors(first(features, 3), serving.read_manifest(folder).inputs, model)
