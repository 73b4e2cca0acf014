"""PyTorch's side: FBGEMM's table-batched embeddings with fused optimizer, torchrec's layers and torch's own.

It runs in its own environment, with torch, fbgemm-gpu-cpu, torchrec and NumPy.
"""

from __future__ import annotations

import itertools
import warnings

warnings.filterwarnings("ignore")  # the libraries warn about each other

import fbgemm_gpu  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode  # noqa: E402
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (  # noqa: E402
    ComputeDevice,
    OptimType,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from studies.peers import cases, torch_models  # noqa: E402
from studies.peers.cases import Batch, Case  # noqa: E402
from studies.peers.session import Running, serve_cases  # noqa: E402

VERSIONS = f"torch {torch.__version__.partition('+')[0]}, FBGEMM {fbgemm_gpu.__version__.partition('+')[0]}"


def tables_of(shapes: dict[object, tuple[int, int]], pooling: PoolingMode) -> SplitTableBatchedEmbeddingBagsCodegen:
    """All tables in one op. Its backward pass is the Adagrad step on the touched rows. `shapes`: {name: (rows, dim)}."""
    op = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for rows, dim in shapes.values()],
        optimizer=OptimType.EXACT_ADAGRAD,
        learning_rate=cases.LEARNING_RATE,
        eps=1e-12,
        pooling_mode=pooling,
        device=torch.device("cpu"),
    )
    for name, weights in zip(shapes, op.split_embedding_weights()):
        weights.copy_(torch.from_numpy(cases.first_table(name, *weights.shape)))
    for (slot,) in op.split_optimizer_states():
        slot.fill_(cases.FIRST_ACCUMULATOR)
    return op


def prepare_lookup(case: Case, batches: list[Batch], threads: int) -> Running:
    torch.set_num_threads(threads)
    tables = tables_of({t: (case.rows, case.dim) for t in range(case.tables)}, PoolingMode.SUM)
    offsets = torch.arange(0, case.tables * case.batch * case.length + 1, case.length)
    given = [(torch.from_numpy(b["ids"].ravel()), torch.from_numpy(b["d_out"])) for b in batches]

    @torch.no_grad()
    def forward(i: int) -> torch.Tensor:
        return tables(given[i][0], offsets)  # [B, F * D]

    def step(i: int) -> torch.Tensor:
        ids, d_out = given[i]
        out = tables(ids, offsets)
        out.backward(d_out)
        return out

    def outputs() -> dict[str, np.ndarray]:
        if case.kind == "lookup_alone":
            return {"before": forward(0).numpy()}
        return {"before": step(0).detach().numpy(), "after": forward(0).numpy()}

    note = "tables of fixed sizes, in which an id is a row" if case.kind == "variable" else ""
    return Running(forward if case.kind == "lookup_alone" else step, VERSIONS, outputs, note)


def prepare_model(case: Case, batches: list[Batch], threads: int) -> Running:
    torch.set_num_threads(threads)
    model = torch_models.MODELS[case.kind](case, tables_of)
    optimizer = torch.optim.Adagrad(  # the tables are stepped in their own backward pass
        model.dense_parameters(),
        lr=cases.LEARNING_RATE,
        initial_accumulator_value=cases.FIRST_ACCUMULATOR,
        eps=1e-12,
        fused=True,
    )
    loss_of = torch.nn.BCEWithLogitsLoss()
    given = [model.inputs({name: torch.from_numpy(array) for name, array in batch.items()}) for batch in batches]
    labels = [torch.from_numpy(batch["labels"]) for batch in batches]

    def step(i: int) -> float:
        optimizer.zero_grad()
        loss = loss_of(model(*given[i]), labels[i])
        loss.backward()
        optimizer.step()
        return loss.item()

    def losses() -> dict[str, np.ndarray]:
        return {
            "losses": np.array([step(i) for i in itertools.islice(itertools.cycle(range(len(batches))), cases.CHECKED_STEPS)])
        }

    return Running(step, VERSIONS, losses)


def prepare_gru(case: Case, batches: list[Batch], threads: int) -> Running:
    """torch.nn.GRU. torch has no AUGRU, so that is a scripted loop, with the product of all inputs before it."""
    torch.set_num_threads(threads)
    attended = case.kind == "augru"
    make = torch_models.AUGRU if attended else torch.nn.GRU
    layer = make(case.width, case.hidden)
    if attended:
        layer = torch.jit.script(layer)

    def time_first(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(np.swapaxes(array, 0, 1)))  # [T, B, ...], torch's fastest layout

    names = ("x", "d_out", "attention") if attended else ("x", "d_out")
    given = [[time_first(batch[name]) for name in names] for batch in batches]
    for x, _, *attention in given:
        for watched in (x, *attention):
            watched.requires_grad_()

    def step(i: int) -> torch.Tensor:
        x, d_out, *attention = given[i]
        layer.zero_grad()
        x.grad = None
        out = layer(x, *attention)
        out = out if attended else out[0]
        out.backward(d_out)
        return out

    return Running(step, VERSIONS, note="resets after the product: other numbers, less to multiply")


if __name__ == "__main__":
    of_kind = {"lookup": prepare_lookup, "lookup_alone": prepare_lookup, "variable": prepare_lookup}
    of_kind |= {"gru": prepare_gru, "augru": prepare_gru}
    serve_cases(of_kind | dict.fromkeys(torch_models.MODELS, prepare_model))
