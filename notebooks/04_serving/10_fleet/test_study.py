"""What the lesson on fleets counts and replays, and its real servers."""

import pytest
from ctrlab.lessons.topics.fleet import deliveries
from ctrlab.lessons.topics.fleet import study as fleet_study
from ctrlab.lessons.topics.fleet.deliveries import Broken, Late, Life, Replayed, Script, ScriptedFleet, Seen

from ctrlab import profiles
from ctrlab.errors import CtrlabError
from ctrlab.server import Split


def arm_of(user, experiment, percents):
    return Split(experiment, percents).arm(user)


def test_users_who_are_drawn_anew_meet_both_arms_and_others_do_not():
    turns = iter(range(10**6))
    assert fleet_study.both_percent(lambda user, experiment, percents: "ab"[next(turns) % 2], 2) == 100
    assert fleet_study.both_percent(arm_of, 5) == 0


def test_moves_and_crossings_are_percents_of_the_users():
    assert abs(fleet_study.moved_percent(arm_of, 10, 25) - 15) < 3
    assert fleet_study.moved_percent(lambda user, *_: "a", 10, 25) == 0
    crossing = fleet_study.crossed(arm_of, "one", "other")
    assert len(crossing) == 4 and all(abs(each - 25) < 4 for each in crossing.values())
    assert fleet_study.crossed(lambda user, *_: "a", "one", "other") == {("a", "a"): 100}


def test_instances_are_as_many_as_the_limit_and_those_away_ask_for():
    assert fleet_study.instances_needed(0.5, 10.0, away=0) == 1
    needed = [fleet_study.instances_needed(3, limit, away=0) for limit in (2, 3, 10)]
    assert needed == sorted(needed, reverse=True) and needed[-1] >= 4
    assert fleet_study.instances_needed(3, 3, away=2) == fleet_study.instances_needed(3, 3, away=0) + 2
    with pytest.raises(CtrlabError, match="longer than the slowest call"):
        fleet_study.instances_needed(1, 1.2, away=0)


def test_the_replayed_minute_is_lost_in_part_by_turns_and_not_at_all_by_the_rules():
    lost = deliveries.failed_percent(deliveries.in_turn, fleet_study.OUTAGES, seconds=60)
    assert 10 < lost < 40
    assert deliveries.failed_percent(deliveries.deliver_by_the_rules, fleet_study.OUTAGES, seconds=60) == 0


def test_a_replayed_fleet_waits_for_the_next_change():
    fleet = Replayed({"i1": Life(((0, "starting"), (2, "ready"), (30, "stopped")))}, at=1.0)
    assert fleet.instances() == [Seen("i1", "starting", 0)]
    with pytest.raises(deliveries.Refused):
        fleet.send("r", "i1")
    fleet.wait()
    assert fleet.at == 2 and fleet.send("r", "i1") == "i1"
    with pytest.raises(Late):
        fleet.wait()


def test_a_script_says_what_comes_of_sending():
    ready = (Seen("i1", "ready", 0), Seen("i2", "ready", 1))
    fleet = ScriptedFleet(Script(7, (ready, ready[:1]), ("broken",)))
    with pytest.raises(Broken):
        fleet.send("request 7", "i1")
    assert [each.state for each in fleet.instances()] == ["suspect", "ready"]
    assert fleet.send("request 7", "i2") == "i2 answers request 7"
    fleet.wait()
    assert fleet.instances() == [ready[0]] and fleet.sent == ["i1", "i2"]
    with pytest.raises(CtrlabError, match="as it is"):
        fleet.send("request 8", "i1")


@pytest.mark.timeout(600)
def test_real_servers_lose_nothing_by_a_kill():
    fleet = fleet_study.RealFleet(profiles.current("tiny"), arms=["control", "new"])
    try:
        fleet.wait_until_ready()
        kill = {0.5: lambda: fleet.kill(fleet.names[0])}
        split = lambda user: Split("e", {"control": 50, "new": 50}).arm(user)  # noqa: E731
        answers = fleet.run(deliveries.deliver_by_the_rules, split, seconds=2.0, per_second=30, events=kill)
        assert [each.why for each in answers if each.why] == [] and {each.version for each in answers} == {1}
        assert {each.instance for each in answers} == set(fleet.names) and {each.arm for each in answers} == {"control", "new"}
        assert {each.instance for each in answers if each.due > 1.0} == {fleet.names[1]}
        assert set(fleet.megabytes()) == {fleet.names[1]}, "the other one is not ready again"
        fleet.wait_until_ready()
        assert len(fleet.megabytes()) == 2 and set(fleet.medians(5)) == {"an instance", "the front"}
    finally:
        fleet.close()
