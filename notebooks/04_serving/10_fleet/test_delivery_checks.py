"""The check of the lesson on fleets that delivers a request, against right answers and every kind of wrong one."""

import random

import pytest
from ctrlab.lessons.topics.fleet.deliveries import Broken, Late, Refused, deliver_by_the_rules, in_turn
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "04_serving/10_fleet"
deliver = solved(LESSON, 2)


class Changed:
    """A fleet of which one thing is done in another way."""

    def __init__(self, fleet):
        self.fleet = fleet

    def __getattr__(self, name):
        return getattr(self.fleet, name)


def delivers_nothing(request, fleet):
    pass


def says_ok(request, fleet):
    deliver(request, fleet)
    return "ok"


def not_again(request, fleet):
    """One try."""
    while not (ready := [each for each in fleet.instances() if each.state == "ready"]):
        fleet.wait()
    return fleet.send(request, min(ready, key=lambda each: each.inside).name)


def on_and_on(request, fleet):
    """A request that ends processes ends all of them."""
    while True:
        try:
            return not_again(request, fleet)
        except (Refused, Broken):
            continue


def three_times(request, fleet):
    for _ in range(2):
        try:
            return not_again(request, fleet)
        except Refused:
            return three_times(request, fleet)
        except Broken:
            continue
    return not_again(request, fleet)


def counts_refused_ones(request, fleet):
    try:
        return not_again(request, fleet)
    except (Refused, Broken):
        return not_again(request, fleet)


def never_after_a_refusal(request, fleet):
    try:
        return not_again(request, fleet)
    except Broken:
        return not_again(request, fleet)


def the_first_that_is_ready(request, fleet):
    class First(Changed):
        def instances(self):
            ready = [each for each in self.fleet.instances() if each.state == "ready"]
            return ready[:1]

    return deliver(request, First(fleet))


def whoever_has_fewest(request, fleet):
    """The state is not looked at."""

    class Any(Changed):
        def instances(self):
            return [each._replace(state="ready") for each in self.fleet.instances()]

    return deliver(request, Any(fleet))


def also_to(*states):
    def answer(request, fleet):
        class More(Changed):
            def instances(self):
                found = self.fleet.instances()
                return [each._replace(state="ready") if each.state in states else each for each in found]

        return deliver(request, More(fleet))

    answer.__name__ = "also_to_" + "_".join(states)
    return answer


def the_most_inside(request, fleet):
    class Most(Changed):
        def instances(self):
            return [each._replace(inside=-each.inside) for each in self.fleet.instances()]

    return deliver(request, Most(fleet))


def the_last_of_as_many(request, fleet):
    class Reversed(Changed):
        def instances(self):
            return self.fleet.instances()[::-1]

    return deliver(request, Reversed(fleet))


def by_chance(request, fleet):
    class Shuffled(Changed):
        def instances(self):
            return [each._replace(inside=random.random()) for each in self.fleet.instances()]

    return deliver(request, Shuffled(fleet))


def looks_once(request, fleet):
    """At what was so when the request came."""
    seen = fleet.instances()

    class Old(Changed):
        def instances(self):
            return seen

        def wait(self):
            self.fleet.wait()
            seen[:] = self.fleet.instances()

    return deliver(request, Old(fleet))


def gives_up_where_none_is_ready(request, fleet):
    class Hasty(Changed):
        def wait(self):
            raise Late("nobody is ready")

    return deliver(request, Hasty(fleet))


def looks_again_at_once(request, fleet):
    """Without waiting: it burns the processor."""

    class Restless(Changed):
        def wait(self):
            pass

    return deliver(request, Restless(fleet))


def waits_first(request, fleet):
    fleet.wait()
    return deliver(request, fleet)


def waits_after_each_failure(request, fleet):
    class Careful(Changed):
        def send(self, request, name):
            try:
                return self.fleet.send(request, name)
            except Refused:
                self.fleet.wait()
                raise

    return deliver(request, Careful(fleet))


def none_where_it_is_late(request, fleet):
    try:
        return deliver(request, fleet)
    except Late:
        return None


def another_error(request, fleet):
    try:
        return deliver(request, fleet)
    except Broken:
        raise Late("broken") from None


def twice_to_be_sure(request, fleet):
    deliver(request, fleet)
    return deliver(request, fleet)


def another_request(request, fleet):
    return deliver(request + "!", fleet)


def the_whole_instance(request, fleet):
    class Whole(Changed):
        def send(self, request, name):
            return self.fleet.send(request, next(each for each in self.fleet.instances() if each.name == name))

    return deliver(request, Whole(fleet))


DELIVERIES = {
    delivers_nothing: "sent to none",
    says_ok: "returns the instance's answer",
    not_again: None,
    on_and_on: "sent twice at most",
    three_times: "sent twice at most",
    counts_refused_ones: None,
    never_after_a_refusal: None,
    the_first_that_is_ready: "the fewest inside",
    whoever_has_fewest: "goes to the ready instance",
    **dict.fromkeys([also_to(state) for state in ("warming", "draining", "suspect", "starting")], "goes to the ready instance"),
    the_most_inside: "the fewest inside",
    the_last_of_as_many: "the fewest inside",
    by_chance: "the fewest inside",
    looks_once: None,
    gives_up_where_none_is_ready: None,
    looks_again_at_once: "call fleet.wait",
    waits_first: None,
    waits_after_each_failure: None,
    none_where_it_is_late: "raises where there is none",
    another_error: "raises where there is none",
    twice_to_be_sure: None,
    another_request: "sent as it is",
    the_whole_instance: "an instance's name",
    in_turn: None,
}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {2: (deliver, DELIVERIES)})


@pytest.mark.parametrize("seed", range(3))
def test_the_definition_passes(seed):
    check.run(LESSON, 2, deliver_by_the_rules, seed)
