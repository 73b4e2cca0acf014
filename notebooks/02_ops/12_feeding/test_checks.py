"""The checks of the feeding lesson against right answers and every kind of wrong one."""

import pytest
import tensorflow as tf
from ctrlab.lessons.topics.feeding import checks as feeding
from solved import solved
from wrong_answers import judge

LESSON = "02_ops/12_feeding"
feed, side_by_side = solved(LESSON, 1), solved(LESSON, 2)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(feeding, "PATIENCE", 1.0)


def row_by_row(lines, parse, size):
    return lines.map(parse, num_parallel_calls=4).batch(size).prefetch(2)


def one_at_a_time(lines, parse, size):
    return lines.batch(size).map(parse).prefetch(2)


def only_when_asked(lines, parse, size):
    return lines.batch(size).map(parse)


def any_order(lines, parse, size):
    return lines.shuffle(100).batch(size).map(parse, num_parallel_calls=4).prefetch(2)


def drops_the_rest(lines, parse, size):
    return lines.batch(size, drop_remainder=True).map(parse, num_parallel_calls=4).prefetch(2)


def forgets_to_parse(lines, parse, size):
    return lines.batch(size).map(tf.strings.to_number, num_parallel_calls=4).prefetch(2)


def twice(lines, parse, size):
    return feed(lines, parse, size).repeat(2)


def one_file_after_another(names, read, cycle):
    return names.flat_map(read)


def row_after_row(names, read, cycle):
    return names.interleave(read, cycle_length=cycle, block_length=1, num_parallel_calls=cycle)


def first_files(names, read, cycle):
    return side_by_side(names.take(cycle), read, cycle)


def any_file_first(names, read, cycle):
    return side_by_side(names.shuffle(10), read, cycle)


def no_overlap(names, read, cycle):
    return names.interleave(read, cycle_length=cycle, block_length=16)


def ahead_but_no_overlap(names, read, cycle):
    return no_overlap(names, lambda name: read(name).prefetch(16), cycle).prefetch(16)


def as_tensorflow_likes(names, read, cycle):
    return names.interleave(read, cycle, 16, num_parallel_calls=tf.data.AUTOTUNE)


def without_an_order(names, read, cycle):
    return names.interleave(read, cycle, 16, num_parallel_calls=cycle, deterministic=False).shuffle(3)


def test_a_parser_without_company_waits_once(monkeypatch):
    monkeypatch.setattr(feeding, "PATIENCE", 0.2)
    parser, found = feeding.Parser(meet=2), []
    wait_for = parser._lock.wait_for
    parser._lock.wait_for = lambda enough, seconds: found.append(wait_for(enough, seconds)) or found[-1]
    assert len(list(one_at_a_time(feeding.lines_of(40), parser, 4))) == 10
    assert found == [False, *[True] * 9] and parser.in_vain


WRONG_FEEDS = [row_by_row, one_at_a_time, only_when_asked, any_order, drops_the_rest, forgets_to_parse, twice]
WRONG_INTERLEAVING = dict.fromkeys([one_file_after_another, row_after_row, first_files, any_file_first, without_an_order])
WRONG_INTERLEAVING |= dict.fromkeys([no_overlap, ahead_but_no_overlap], "Budget: the files' waits overlap")
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (feed, WRONG_FEEDS), 2: ((side_by_side, as_tensorflow_likes), WRONG_INTERLEAVING)}
)
