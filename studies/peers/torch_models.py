"""DeepFM, DLRM, DIN and an AUGRU in PyTorch, equal to `ctrlab.models` layer by layer, with the same initial weights.

Nothing is compiled: torch.compile on the towers gained nothing (0.98x in CPU time on DeepFM) and takes a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from torch import nn
from torchrec.models.dlrm import InteractionArch

from studies.peers import cases
from studies.peers.cases import Case


def tower(name: str, inputs: int, units: Sequence[int], activation=nn.ReLU, *, norm=False, linear_top=False) -> nn.Sequential:
    """Dense layers with an activation after each, except after a linear top; then Keras's BatchNormalization."""
    layers: list[nn.Module] = []
    for i, n in enumerate(units):
        dense = nn.Linear(inputs, n)
        set_kernel(dense, f"{name}/dense_{i}")
        layers.append(dense)
        if not linear_top or i < len(units) - 1:
            layers.append(activation())
            if norm:
                layers.append(nn.BatchNorm1d(n, eps=1e-3, momentum=0.01))
        inputs = n
    return nn.Sequential(*layers)


@torch.no_grad()
def set_kernel(dense: nn.Linear, name: str) -> None:
    dense.weight.copy_(torch.from_numpy(cases.first_kernel(name, dense.in_features, dense.out_features).T))
    dense.bias.zero_()


class Clicks(nn.Module):
    """The common part of DeepFM and DLRM, with one id per column."""

    def __init__(self, case: Case, tables_of: Callable):
        super().__init__()
        self.fields, self.dim = case.tables, case.dim
        # The names of the columns, which also select the initial weights.
        self.tables = tables_of({f"C{t + 1}": (case.rows, case.dim) for t in range(case.tables)}, PoolingMode.SUM)
        self.register_buffer("offsets", torch.arange(case.tables * case.batch + 1), persistent=False)

    def dense_parameters(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if not name.startswith("tables.")]


class DeepFM(Clicks):
    def __init__(self, case: Case, tables_of: Callable):
        super().__init__(case, tables_of)
        flat = self.fields * self.dim
        # A gather from one vector: the gradient of an nn.EmbeddingBag of width 1 would take a sixth of the step.
        self.linear = nn.Parameter(torch.zeros(case.tables * case.rows))
        self.linear_numbers = nn.Linear(case.numbers, 1)
        nn.init.zeros_(self.linear_numbers.weight)
        nn.init.zeros_(self.linear_numbers.bias)
        self.deep = tower("deep", flat + case.numbers, case.units["deep"], norm=True)
        self.top = tower("top", case.units["deep"][-1] + 1 + self.dim, case.units["top"], norm=True)
        self.logit = tower("logit", case.units["top"][-1], (1,), linear_top=True)
        self.rows = case.rows

    def inputs(self, batch):
        own = torch.arange(self.fields)[:, None] * self.rows
        return batch["ids"].ravel(), (batch["ids"] + own).T.ravel(), batch["numbers"]

    def forward(self, ids, wide, numbers):
        flat = self.tables(ids, self.offsets)  # [B, F * D]
        vectors = flat.view(-1, self.fields, self.dim)  # [B, F, D]
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1))  # [B, D]
        linear = self.linear.index_select(0, wide).view(-1, self.fields).sum(1, keepdim=True)  # [B, 1]
        linear = linear + self.linear_numbers(numbers)
        deep = self.deep(torch.cat([flat, numbers], 1))  # [B, 32]
        return self.logit(self.top(torch.cat([deep, linear, pairs], 1)))  # [B, 1]


class DLRM(Clicks):
    def __init__(self, case: Case, tables_of: Callable):
        super().__init__(case, tables_of)
        self.bottom = tower("bottom", case.numbers, (*case.units["bottom"], self.dim), norm=True)
        self.interaction = InteractionArch(self.fields)
        pairs = (self.fields + 1) * self.fields // 2
        self.top = tower("top", pairs + self.dim, (*case.units["top"], 1), linear_top=True)
        self._reorder(self.top[0])

    @torch.no_grad()
    def _reorder(self, dense: nn.Linear) -> None:
        """torchrec orders pairs (0, 1), (0, 2), ...; we order them (1, 0), (2, 0), (2, 1), ...: permutes the weights to its
        order."""
        vectors = self.fields + 1
        place = np.zeros((vectors, vectors), np.int64)
        rows, columns = np.tril_indices(vectors, -1)
        place[columns, rows] = np.arange(len(rows))
        order = place[np.triu_indices(vectors, 1)]
        dense.weight[:, self.dim :] = dense.weight[:, self.dim + order]

    def inputs(self, batch):
        return batch["ids"].ravel(), batch["numbers"]

    def forward(self, ids, numbers):
        vectors = self.tables(ids, self.offsets).view(-1, self.fields, self.dim)  # [B, F, D]
        return self.top(self.interaction(self.bottom(numbers), vectors))  # [B, 1]


class DIN(nn.Module):
    """Uses flat histories: like ours, the attention's layers process only existing events."""

    def __init__(self, case: Case, tables_of: Callable):
        super().__init__()
        self.names = ("user", "item", "category")
        self.tables = tables_of({name: (case.sizes[name], case.dim) for name in self.names}, PoolingMode.NONE)
        width, self.rows = 2 * case.dim, case.batch  # C
        self.query = nn.Linear(width, width)
        set_kernel(self.query, "query_dense/dense_0")
        self.prelu = nn.PReLU(width, cases.ALPHA)
        self.unit = tower("attention", 4 * width, (*case.units["attention"], 1), nn.Sigmoid, linear_top=True)
        inputs = case.dim + 4 * width
        self.scale, self.shift = nn.Parameter(torch.ones(inputs)), nn.Parameter(torch.zeros(inputs))
        self.head = tower("head_tower", inputs, (*case.units["head"], 1), linear_top=True)

    def dense_parameters(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if not name.startswith("tables.")]

    def inputs(self, batch):
        ids = torch.cat([batch[n] for n in ("user", "item", "items", "category", "categories")])
        rows, events = self.rows, len(batch["items"])
        # One "bag" per table and example; without pooling only the tables' ends matter.
        sizes = torch.zeros(3, rows, dtype=torch.int64)
        sizes[:, 0] = torch.tensor([rows, rows + events, rows + events])
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.ravel().cumsum(0)])
        lengths = batch["splits"].diff()
        row_of = torch.repeat_interleave(torch.arange(rows), lengths)  # [N]
        place = torch.arange(events) - batch["splits"][row_of]
        return ids, offsets, row_of, row_of * int(lengths.max()) + place, int(lengths.max())

    def forward(self, ids, offsets, row_of, cell, longest):
        rows, events = self.rows, len(row_of)
        user, item, items, category, categories = self.tables(ids, offsets).split([rows, rows, events, rows, events])
        target, history = torch.cat([item, category], 1), torch.cat([items, categories], 1)  # [B, C], [N, C]
        query = self.prelu(self.query(target)).index_select(0, row_of)  # [N, C]
        scores = self.unit(torch.cat([query, history, query - history, query * history], 1))  # [N, 1]
        padded = scores.new_full((rows * longest,), float("-inf")).index_copy(0, cell, scores[:, 0]).view(rows, longest)
        weights = torch.softmax(padded, 1).view(-1).index_select(0, cell)  # [N]; examples without events contribute nothing
        none = history.new_zeros(rows, history.shape[1])
        attended = none.index_add(0, row_of, history * weights[:, None])  # [B, C]
        total = none.index_add(0, row_of, history)  # [B, C]
        joined = torch.cat([user, target, total, target * total, attended], 1)
        return self.head(joined * self.scale + self.shift)  # [B, 1]


class AUGRU(nn.Module):
    """A GRU whose update gate is scaled by an attention. It resets after the product, so each step has a single product."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.of_x, self.of_h = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.hidden = hidden

    def forward(self, x: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        """x [T, B, C], attention [T, B] -> [T, B, H]."""
        h = torch.zeros(x.shape[1], self.hidden)
        outputs: list[torch.Tensor] = []
        for from_x, a in zip(self.of_x(x).unbind(0), attention[:, :, None].unbind(0)):
            reset_x, update_x, new_x = from_x.chunk(3, 1)
            reset_h, update_h, new_h = self.of_h(h).chunk(3, 1)
            update = (1 - a) * torch.sigmoid(update_x + update_h)
            new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
            h = new + update * (h - new)
            outputs.append(h)
        return torch.stack(outputs)


MODELS = {"deepfm": DeepFM, "dlrm": DLRM, "din": DIN}
