"""Workers that share a batch take the step that one process takes with the whole: loss, weights, slots, rows, counts.

From the same state, with tables of a few hundred rows so that ids of several workers collide. What must be equal but for the
order of sums has the tolerance of `ctrlab.training.equality`; keys and counts must be equal, and what every worker has whole must
be the same bits on each.
"""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from equal_steps import Case, aligned, flat, joined, unflat, write_cases
from local_workers import run_workers

from ctrlab.embedding.table.proxy import Rows
from ctrlab.training import equality

pytestmark = pytest.mark.timeout(900)  # several processes on the same cores
BATCH = 64
WARM_STEPS = 3
HASHED = [Case(model) for model in ("wdl", "deepfm", "dlrm", "din", "dien", "mmoe")]
VARIABLES = [
    Case("wdl", "counter"),
    Case("deepfm", "bloom", clip_norm=1e-3),
    Case("dlrm", "every", "none"),
    Case("din", "counter"),
    Case("dien", "counter", clip_norm=1e-3),
    Case("mmoe", "every"),
]
OTHERS = [
    Case("dlrm", optimizations="none"),
    Case("dlrm", "multihash"),
    Case("dien", clip_norm=1e-3),
    Case("deepfm", "every", size="small"),
    Case("wdl", size="small"),
    Case("mmoe", size="small"),
    Case("deepfm", buckets=1),  # the second worker has no row of some tables
]
NARROW = Case("dlrm", "every", rows_as="bfloat16")
SHARES = {
    (41, 23): [*HASHED, *VARIABLES, *OTHERS, NARROW],
    (22, 21, 21): HASHED,
    (30, 0, 17, 17): VARIABLES,  # a worker whose rows have ended
    (64,): HASHED[:1],
}


@dataclass
class Trained:
    """A case in one process, a few steps from its start: its state, and what a step from it gives."""

    case: Case
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    loss: float = 0.0
    tolerances: dict = field(default_factory=dict)

    def train(self, batches) -> None:
        from ctrlab.training import get_state, set_state, train_step

        self.model, self.optimizer = self.case.build()
        step = train_step(self.model, self.optimizer)
        for batch in batches[:WARM_STEPS]:
            step(*batch)
        state = get_state(self.model, self.optimizer)

        def stepped(changed: dict) -> dict:
            set_state(state | changed, self.model, self.optimizer)
            self.loss = float(step(*batches[-1]))
            return unflat(flat(get_state(self.model, self.optimizer)))

        self.before, self.after = unflat(flat(state)), stepped({})
        dense = {name: value for name, value in state.items() if not isinstance(value, Rows)}
        loss, expected = self.loss, self.moves(self.after)
        old = self.aligned(self.after)[0]
        least = {key: equality.move_tolerance(key, old, expected) for key in expected.keys() - equality.zeros_of(expected).keys()}
        self.tolerances = equality.determined(lambda s: self.moves(stepped(s)), dense, expected, least)
        self.loss = loss

    def aligned(self, after: dict):
        return aligned(self.before, after, self.model, self.optimizer)

    def moves(self, after: dict) -> dict:
        old, new, _ = self.aligned(after)
        return equality.moves(old, new)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, {case: Trained}), with what workers read written to the folder."""
    from ctrlab import data
    from ctrlab.model_names import DATA_SETS

    folder, found = tmp_path_factory.mktemp("cases"), {}
    for case in dict.fromkeys(case for cases in SHARES.values() for case in cases):
        one, path = Trained(case), folder / f"{case.model}.parquet"
        if not path.exists():
            rows = list(data.generate(DATA_SETS[case.model], rows=(WARM_STEPS + 1) * BATCH, seed=3))
            data.write(rows, data.schema(DATA_SETS[case.model]), path, "parquet", progress=False)
        schema = case.build()[0].input_schema
        one.train(list(data.read(path, schema, batch_size=BATCH)))
        np.savez(folder / f"{case.name}.npz", **flat(one.before))
        found[case] = one
    return folder, found


@pytest.fixture(scope="module")
def workers_of(trained):
    """shares -> {case: (the loss of each worker, their state together)}; the workers run on the first call."""
    folder, known = trained
    made = {}

    def of(shares):
        if shares not in made:
            write_cases(folder, SHARES[shares])
            run_workers(len(shares), "step_worker.py", folder, json.dumps(shares))
            made[shares] = {case: read(case, len(shares)) for case in SHARES[shares]}
        return made[shares]

    def read(case, count):
        states = []
        for index in range(count):
            with np.load(folder / f"{case.name}.{index}-of-{count}.npz") as arrays:
                states.append(dict(arrays))
        losses = [float(state.pop("loss")) for state in states]
        return losses, joined([unflat(state) for state in states], known[case].after)

    return of


@pytest.mark.parametrize(
    ("shares", "case"),
    [pytest.param(s, c, id=f"{len(s)}-{c.name}") for s, cases in SHARES.items() for c in cases if c is not NARROW],
)
def test_workers_take_the_step_that_one_takes_with_the_whole_batch(shares, case, trained, workers_of):
    one = trained[1][case]
    losses, after = workers_of(shares)[case]
    assert set(losses) == {losses[0]}
    assert losses[0] == pytest.approx(one.loss, rel=equality.TOLERANCE)
    assert equality.differences(one.moves(one.after), one.moves(after), one.tolerances) == []
    expected, received = one.aligned(one.after)[2], one.aligned(after)[2]
    assert expected.keys() == received.keys()
    assert [name for name in expected if not np.array_equal(expected[name], received[name])] == []


def test_rows_that_travel_in_bfloat16_are_off_by_its_rounding(trained, workers_of):
    """A bfloat16 has 8 bits: a row is off by up to 2^-9 of itself, and so is its gradient, besides what other rows do to it."""
    one = trained[1][NARROW]
    _, after = workers_of((41, 23))[NARROW]
    expected, received = one.moves(one.after), one.moves(after)
    of_rows = [name for name in expected if "step of optimizer" in name and "embedding" in name]
    off = [np.linalg.norm(received[name] - expected[name]) / np.linalg.norm(expected[name]) for name in of_rows]
    assert len(off) > 20 and 2**-13 < np.median(off) < 2**-5 and max(off) < 2**-4


def test_the_cases_show_what_they_are_for(trained):
    """Rows are admitted in the step, candidates wait, gradients are clipped."""
    known = trained[1]
    exact = known[VARIABLES[3]].aligned(known[VARIABLES[3]].after)[2]
    rows = [name for name in exact if name.endswith(" keys")]
    assert any(len(exact[name]) > len(known[VARIABLES[3]].before[name.removesuffix(" keys")].keys) > 0 for name in rows)
    assert any(len(exact[name]) for name in exact if name.endswith(" candidates"))
    moved = known[VARIABLES[4]].moves(known[VARIABLES[4]].after)
    item = next(name for name in moved if name.startswith("step of optimizer/adam_async/embedding_item") and name.endswith("_m"))
    old = known[VARIABLES[4]].aligned(known[VARIABLES[4]].after)[0][item.removeprefix("step of ")]
    touched = moved[item].any(axis=1)
    gradient = 10 * moved[item][touched] + old[touched]  # m' - m = .1 (g - m)
    assert np.linalg.norm(gradient) == pytest.approx(VARIABLES[4].clip_norm, rel=1e-3)


@pytest.mark.parametrize("shares", [(41, 23)])
def test_a_step_that_forgets_the_others_is_seen(shares, trained, workers_of):
    """A worker's own rows alone, or a row twice, are further off than any tolerance."""
    for case in (HASHED[1], VARIABLES[0]):
        one = trained[1][case]
        moved = one.moves(workers_of(shares)[case][1])
        for wrong in (0.5, 1.02):
            scaled = {name: (wrong * move).astype(move.dtype) for name, move in moved.items()}
            assert len(equality.differences(one.moves(one.after), scaled, one.tolerances)) > 0.7 * len(moved)
