"""What the lesson on users that are computed once serves and measures with: equal answers, requests, and a learner's graph."""

import json

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.user_once import parts, study
from solved import solved

from ctrlab import profiles
from ctrlab.models import sharing
from ctrlab.serving.processor import Refused

SAME = 1e-6
first_layer, attend = (solved("04_serving/07_user_once", n) for n in (1, 2))


@pytest.fixture(scope="module", params=["din", "dien"])
def ranking(request):
    found = study.Ranking(request.param, profiles.PROFILES["tiny"])
    found.serve("stock", "stock")
    found.serve("yours", "stock", user_once=True, first_layer=first_layer, attend=attend)
    found.serve("ours", "all", user_once=True)
    yield found
    found.close()


@pytest.mark.parametrize("candidates, events", [(1, 3), (7, 1), (20, 50)])
def test_every_way_gives_the_same_answers(ranking, candidates, events):
    base = ranking.answers("stock", candidates, events)
    assert base.shape == (study.BODIES * candidates,) and (candidates == 1 or base.std() > 0.02)
    for way in ("yours", "ours"):
        assert 0 < ranking.furthest(way, "stock", candidates, events) < SAME


def test_requests_are_of_one_user_in_each_ways_form(ranking):
    whole, once = (json.loads(ranking.requests(way, 9, 6)[1])["inputs"] for way in ("stock", "ours"))
    assert set(whole["user"]) == set(once["user"]) and len(whole["user"]) == 9 and once["candidates"] == [9]
    assert once["history_items/row_splits"] == [0, 6] and whole["history_items/row_splits"] == [6 * n for n in range(10)]
    assert whole["history_items/values"] == 9 * once["history_items/values"] and whole["item"] == once["item"]
    assert len(set(once["item"])) > 3 and ranking.requests("stock", 9, 6) == ranking.requests("stock", 9, 6)
    assert len(set(ranking.requests("ours", 9, 6))) == study.BODIES


def test_an_event_is_an_item_with_its_own_category(ranking):
    request = json.loads(ranking.requests("ours", 9, 40)[0])["inputs"]
    table = ranking._table.to_pydict()
    pairs = set(zip(table["item"], table["category"]))
    assert set(zip(request["history_items/values"], request["history_categories/values"])) <= pairs


def test_bytes_of_a_request(ranking):
    whole, once = (ranking.bytes_by_role(ranking.requests(way, 200, 50)[0]) for way in ("stock", "ours"))
    sizes = [len(ranking.requests(way, 200, 50)[0]) for way in ("stock", "ours")]
    assert sizes[0] > 20 * sizes[1]
    assert sum(whole.values()) == pytest.approx(sizes[0], rel=0.02) and sum(once.values()) == pytest.approx(sizes[1], rel=0.02)
    assert whole["user"] > 100 * once["user"] and whole["candidate"] == pytest.approx(once["candidate"], rel=0.02)


def test_calls_answer_one_request_after_the_other(ranking):
    call = ranking.calls(3, 2)["yours"]
    answers = [json.loads(call(number).data)["outputs"] for number in range(study.BODIES + 1)]
    assert answers[0] == answers[-1] and np.ravel(answers[:-1]) == pytest.approx(ranking.answers("yours", 3, 2))


def test_a_learners_answers_are_what_the_graph_computes(ranking):
    wrong = {"first_layer": lambda *given: 0.5 * first_layer(*given), "attend": lambda *given: two_of(attend(*given))}
    for name, answer in wrong.items():
        way = f"wrong {name}"
        ranking.serve(way, "stock", user_once=True, **{"first_layer": first_layer, "attend": attend} | {name: answer})
        assert ranking.furthest(way, "stock", 20, 5) > 1e-3, name
        del ranking.served[way]


def two_of(found):
    return tuple(0.2 * each for each in found)


def test_the_package_is_as_it_was(ranking):
    assert sharing.product.__module__ == sharing.__name__
    with pytest.raises(ZeroDivisionError), study._multiplied_by(first_layer):
        raise ZeroDivisionError
    assert sharing.product.__module__ == sharing.__name__


def test_a_learners_graph_refuses_two_users(ranking):
    request = json.loads(ranking.requests("ours", 2, 1)[0])["inputs"]
    twice = {name: 2 * values for name, values in request.items() if not name.endswith("row_splits")}
    twice |= {name: [0, 1, 2] for name in request if name.endswith("row_splits")}
    body = json.dumps({"inputs": twice}).encode()
    assert len(json.loads(ranking.served["ours"].process(body, "json").data)["outputs"]) == 4
    with pytest.raises(Refused, match="requests of one user"):
        ranking.served["yours"].process(body, "json")


def test_it_leaves_no_files():
    ranking = study.Ranking("din", profiles.PROFILES["tiny"])
    folder = ranking._folder
    assert folder.exists()
    ranking.close()
    assert not folder.exists()


def test_ways_of_attention_agree_and_their_work_is_that_of_the_shared_op():
    ways, inputs, least = parts.attention(30, 7, attend)
    found = {name: way(*inputs(1)) for name, way in ways.items()}
    for weights, attended in found.values():
        np.testing.assert_allclose(weights, found["ours"][0], atol=1e-6)
        np.testing.assert_allclose(attended, found["ours"][1], atol=1e-5)
    counted = parts.products(30, 7)
    assert (
        counted["user once"] < least.flops / 2 < 1.03 * counted["user once"]
    )  # it counts the products q * k and their sums, too
    assert not np.array_equal(inputs(1)[0], inputs(2)[0])


@pytest.mark.parametrize("candidates, events", [(1, 50), (200, 10), (200, 50), (500, 100)])
def test_products_of_pairs_are_the_least(candidates, events):
    whole, once, alone = parts.products(candidates, events).values()
    assert alone < once < whole
    assert candidates < 200 or once < 1.1 * alone


def test_the_sizes_of_mmoes_first_layer():
    of_user, of_candidate = parts.columns_of_mmoe()
    assert (of_user, of_candidate) == (12 * 16, 6 * 16)
    users, candidates, row_of, kernel = parts.first_layer_of_mmoe(5)(0)
    assert users.shape == (1, of_user) and candidates.shape == (5, of_candidate) and kernel.shape == (288, 1024)
    assert row_of.dtype == tf.int64 and row_of.shape == (5,)


def test_a_split_layer_loses_digits_far_from_0_and_ours_does_not():
    near, far = parts.errors(attend, 0.1), parts.errors(attend, 10_000.0)
    assert max(near.values()) < 1e-5
    assert far["yours"] > 100 * far["joined"] and far["ours"] < 10 * far["joined"]
