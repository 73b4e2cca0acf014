"""The cases of lookup, merge and optimizer step: one training step of the tables."""

from __future__ import annotations

from ctypes import byref, sizeof

import numpy as np

from ctrlab.cuda.cases import Case, Memory, histories, normal, splits_of
from ctrlab.cuda.devices import Device
from ctrlab.cuda.library import Library, LookupColumn, LookupInput, LookupTable, MergedRows, MergeRoom, StepRule, StepVariable
from ctrlab.ops.references import sparse_update
from ctrlab.profiling.work import Work

ROWS, SUM, MEAN = 0, 1, 2
KINDS = {"sgd": 0, "adagrad": 1, "ftrl": 2, "adam_async": 3}
CASES = {
    f"odd_{kind}": {"rows": 6, "tables": ((9, 3), (4, 5)), "kind": kind, "clip": clip, "longest": 4, "small": True}
    for kind, clip in (("sgd", 0.5), ("adagrad", 0.0), ("ftrl", 0.0), ("adam_async", 1.0))
} | {
    # More ids than one round of the merge counts, and a last bitmap word that is half empty.
    "odd_many": {"rows": 40, "tables": ((140_003, 2), (65_536, 1)), "kind": "sgd", "clip": 0.0, "longest": 9, "small": True},
    **{
        name: {"rows": 512, "tables": ((100_000, 16),) * 26, "kind": "adagrad", "clip": 0.0, "longest": longest, "small": False}
        for name, longest in (("one_id", 1), ("twenty_ids", 20))
    },
}
LEARNING_RATE, STEP = 0.05, 3


def case(device: Device, library: Library, rng, *, rows, tables, kind, clip, longest, small) -> Case:
    """Small: each table has a pooled column of each kind and a "rows" column; large: one summed column per table."""
    memory = Memory(device)
    columns, entries, widths = [], [], [0, 0]
    for t, (size, dim) in enumerate(tables):
        for combiner in (SUM, MEAN, ROWS) if small else (SUM,):
            # "rows" columns side by side must have equal lengths, so both tables use the first one's splits.
            lengths = histories(rng, rows, longest, small=True) if small else np.full(rows, longest)
            splits = columns[2][1] if combiner == ROWS and t else splits_of(lengths)
            ids = rng.integers(-1 if small else 0, size, splits[-1])
            output = int(combiner == ROWS)
            columns.append((ids, splits, t, combiner, output, widths[output]))
            widths[output] += dim
    for c, (ids, splits, t, combiner, output, offset) in enumerate(columns):
        pointer = memory.put(f"splits {c}", splits) if longest > 1 else None
        entries.append(LookupColumn(memory.put(f"ids {c}", ids), pointer, t, output, offset, combiner))
    events = int(columns[2][1][-1]) if small else 0
    heights = (rows, events)
    weights = [normal(rng, size, dim) for size, dim in tables]
    rule = sparse_update.Rule(kind)
    slots = [{name: np.full(w.shape, value, np.float32) for name, value in rule.slots.items()} for w in weights]
    upstream = [normal(rng, height, width) for height, width in zip(heights, widths)]

    table_at = [memory.put(f"weights {t}", w) for t, w in enumerate(weights)]
    slot_at = [[memory.put(f"{name} {t}", s) for name, s in own.items()] for t, own in enumerate(slots)]
    out_at = [memory.empty(f"out {o}", (height, width)) for o, (height, width) in enumerate(zip(heights, widths))]
    columns_at = memory.structs("columns", entries)
    shapes_at = memory.structs("tables", [LookupTable(*table) for table in tables])
    given = LookupInput(columns_at, len(entries), shapes_at, len(tables), memory.put("widths", np.array(widths)), rows)
    merged, rooms, steps = [], [], []
    for t, (size, dim) in enumerate(tables):
        most, words = _room(columns, t, size), -(-size // 32)
        merged.append(
            MergedRows(
                memory.empty(f"merged ids {t}", (most,), np.int64), memory.empty(f"sums {t}", (most, dim)), Memory.UNWRITTEN
            )
        )
        rooms.append(MergeRoom(*(memory.empty(f"{name} {t}", (words,), np.int32) for name in ("taken", "before"))))
        two = (*slot_at[t], None, None)[:2]
        steps.append(StepVariable(table_at[t], two, merged[t].ids, merged[t].rows, 0, dim))
    merged_at, rooms_at = memory.structs("merged", merged), memory.structs("rooms", rooms)
    counts = [merged_at + t * sizeof(MergedRows) + MergedRows.count.offset for t in range(len(tables))]
    tables_at, outs_at = memory.pointers("addresses of weights", table_at), memory.pointers("addresses of out", out_at)
    d_outs = [memory.put(f"d_out {o}", d) for o, d in enumerate(upstream)]
    upstream_at = memory.pointers("addresses of d_out", d_outs)
    numbers = StepRule(KINDS[kind], rule.beta1, rule.beta2, rule.epsilon, rule.l1, rule.l2, clip, LEARNING_RATE, STEP)
    variables_at = memory.structs("variables", steps), memory.pointers("addresses of counts", counts)
    norms = memory.empty("norms", (len(tables),))

    def run() -> dict:
        library.lookup(byref(given), tables_at, outs_at, device.stream)
        library.lookup_merge(byref(given), upstream_at, merged_at, rooms_at, device.stream)
        library.optimizer_step(byref(numbers), *variables_at, len(tables), norms, device.stream)
        results = [f"out {o}" for o in range(len(out_at)) if heights[o]]
        results += [f"{name} {t}" for t in range(len(tables)) for name in ("merged ids", "weights", *rule.slots)]
        return {name: memory[name] for name in results} | {"counts": memory["merged"][2::3]}

    hits, width = sum(len(ids) for ids, *_ in columns), tables[0][1]
    return Case(
        f"{len(tables)} tables of {tables[0][0]:,} x {width}, B={rows}, {hits / rows / len(tables):.3g} ids a column, {kind}",
        run,
        _expected(columns, weights, rule, slots, upstream, clip, tables) if small else {},
        work=Work(
            flops=8.0 * hits * width, bytes=16.0 * hits + 8.0 * rows * widths[0], random_rows=2.0 * hits, row_bytes=4 * width
        ),
        rival=None if small else ("torch embedding_bag + Adagrad", _torch(columns, weights, upstream[0], width)),
    )


def _expected(columns, weights, rule, slots, upstream, clip, tables) -> dict[str, np.ndarray]:
    """For each row: what each column looks up, and the gradients of each table's ids."""
    outs = [np.zeros(d.shape) for d in upstream]
    given: list[list] = [[] for _ in tables]
    counts: list[int] = []
    for ids, splits, t, combiner, output, offset in columns:
        span = slice(offset, offset + tables[t][1])
        for b in range(len(splits) - 1):
            bag = [(n, i) for n, i in enumerate(ids[splits[b] : splits[b + 1]], splits[b]) if i >= 0]
            for n, i in bag:
                place, share = (n, 1.0) if combiner == ROWS else (b, 1.0 / len(bag) if combiner == MEAN else 1.0)
                outs[output][place, span] += share * weights[t][i].astype(np.float64)
                given[t].append((i, share * upstream[output][place, span].astype(np.float64)))
    answers = {f"out {o}": out for o, out in enumerate(outs)}
    for t, pairs in enumerate(given):
        w, own = weights[t].astype(np.float64), {name: s.astype(np.float64) for name, s in slots[t].items()}
        ids = np.array([i for i, _ in pairs])
        sparse_update.reference(rule, [(w, own, (ids, np.array([row for _, row in pairs])))], LEARNING_RATE, STEP, clip or None)
        ids = np.unique(ids)
        answers |= {f"weights {t}": w} | {f"{name} {t}": slot for name, slot in own.items()}
        # The ids come in ascending order, each once; the memory after them is left unchanged.
        untouched = np.full(_room(columns, t, tables[t][0]) - len(ids), Memory.UNWRITTEN)
        answers[f"merged ids {t}"] = np.concatenate([ids, untouched])
        counts.append(len(ids))
    return answers | {"counts": np.array(counts)}


def _room(columns, t: int, size: int) -> int:
    """An upper limit for the number of distinct ids of table `t`."""
    return min(size, sum(len(ids) for ids, _, table, *_ in columns if table == t))


def _torch(columns, weights, d_out, width):
    def build():
        import torch

        tables = [torch.from_numpy(w).cuda().requires_grad_() for w in weights]
        optimizer = torch.optim.Adagrad(tables, lr=LEARNING_RATE, initial_accumulator_value=0.1)
        bags = [(torch.from_numpy(ids).cuda(), torch.from_numpy(splits[:-1]).cuda()) for ids, splits, *_ in columns]
        gradient = torch.from_numpy(d_out).cuda()

        def run():
            looked_up = [
                torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum", sparse=True)
                for (ids, offsets), table in zip(bags, tables)
            ]
            optimizer.zero_grad()
            torch.cat(looked_up, 1).backward(gradient)
            optimizer.step()

        return run

    return build
