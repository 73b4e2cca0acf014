"""What the lesson on rows in fewer bits measures with: tables that change and come back, costs, and a learner's packing."""

import numpy as np
import pytest
from ctrlab.lessons.topics.quantize import study
from ctrlab.lessons.topics.quantize.checks import reference_bfloat16, reference_quantize

from ctrlab import profiles
from ctrlab.serving import rows, weights
from ctrlab.serving.processor import Processor

YOURS = study.packer(reference_quantize, reference_bfloat16)


@pytest.fixture(scope="module")
def trained():
    return study.Trained("deepfm", profiles.PROFILES["tiny"])


def test_tables_change_for_a_while(trained):
    before = trained.scores()
    assert abs(trained.scores(lambda table: 0 * table) - before).max() > 0.01
    np.testing.assert_array_equal(trained.scores(), before)
    with pytest.raises(RuntimeError), trained.changed(lambda name, table: 0 * table):
        raise RuntimeError
    np.testing.assert_array_equal(trained.scores(), before)
    assert {table.shape[1] for table in trained.tables.values()} == {16}


def test_a_learners_rows_are_exported_and_served(trained, tmp_path):
    versions = {
        "float32": trained.export(tmp_path / "float32"),
        "yours": trained.export(tmp_path / "yours", "int8_rows", YOURS),
        "ours": trained.export(tmp_path / "ours", "int8_rows"),
        "halved": trained.export(tmp_path / "halved", "int8_rows", study.packer(halves, reference_bfloat16)),
    }
    assert weights.pack is rows.pack
    sizes = {name: study.weights_bytes(version) for name, version in versions.items()}
    assert sizes["float32"] > 1.5 * sizes["yours"] and sizes["yours"] == sizes["ours"]
    found = {}
    for name, version in versions.items():
        with Processor(version.parent, poll_seconds=0) as processor:
            found[name] = study.answers(processor, trained.request(8)).ravel()
    np.testing.assert_allclose(found["float32"], trained.scores()[:8], atol=2e-6)
    np.testing.assert_allclose(found["yours"], found["ours"], atol=1e-6)
    assert abs(found["halved"] - found["ours"]).max() > 1e-3


def halves(values, bits):
    q, scales = reference_quantize(values, bits)
    return q, scales / 2


def test_a_packing_is_put_back_also_where_it_fails(trained, tmp_path):
    with pytest.raises(ZeroDivisionError):
        trained.export(tmp_path, "int8_rows", lambda values, format: 1 / 0)
    assert weights.pack is rows.pack


@pytest.mark.parametrize("dim", [2, 3, 16, 17])
def test_rows_are_packed_as_the_package_packs_them(dim):
    values = np.random.default_rng(dim).standard_normal((20, dim)).astype(np.float32)
    assert study.same_rows(YOURS, {"t": values}) == 1
    assert study.same_rows(study.packer(halves, reference_bfloat16), {"t": values}) < 1
    np.testing.assert_array_equal(YOURS(values, "float32"), values)


def test_an_outlier_is_one_number_of_a_row_that_nobody_read(trained):
    counts = []
    for name, values in trained.tables.items():
        found = trained.with_outlier(name, 30)
        counts.append(np.sum(found != values))
        assert trained.with_outlier(name, 0) is values
        assert abs(found).max() == pytest.approx((30 if counts[-1] else 1) * abs(values).max())
    assert set(counts) <= {0, 1} and sum(counts) >= 3  # in tables of which every row was read there is none
    before = trained.scores()
    assert np.mean(abs(trained.scores(outlier=30) - before) > 1e-6) < 0.05
    np.testing.assert_array_equal(trained.scores(), before)


@pytest.mark.parametrize("size, lines", [(64, 1), (32, 1), (4, 1), (20, 1.25), (128, 2), (68, 2), (100, 2.5)])
def test_lines_of_a_row(size, lines):
    assert study.lines(size) == lines
