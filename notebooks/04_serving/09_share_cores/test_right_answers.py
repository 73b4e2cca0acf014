"""Right answers that are built in other ways than the lesson's solutions."""

import bisect
import functools
import heapq
import math

from right_answers import passing


def _first(holds, low, high):
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def latencies_by_pop_and_push(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(heapq.heappop(free), at) + work
        heapq.heappush(free, ends)
        took.append(ends - at)
    return took


def latencies_by_a_sorted_list(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(free.pop(0), at) + work
        bisect.insort(free, ends)
        took.append(ends - at)
    return took


def latencies_with_cores_named(due, service, cores):
    free, took = [(0, core) for core in range(cores)], []
    for at, work in zip(due, service):
        begins, core = heapq.heappop(free)
        begins = at if begins < at else begins
        took.append(begins + work - at)
        heapq.heappush(free, (begins + work, core))
    return took


def _most_for_main(busy, cores):
    return min(cores - 1, math.ceil(cores - busy) - 1)


def cores_by_bisect(p99, limit, busy, cores):
    most = _most_for_main(busy, cores)
    if most < 1:
        return None
    found = 1 + bisect.bisect_left(range(1, most + 1), True, key=lambda n: p99(n) <= limit)
    return found if found <= most else None


def cores_after_the_largest(p99, limit, busy, cores):
    most = _most_for_main(busy, cores)
    if most < 1 or p99(most) > limit:
        return None
    return _first(lambda n: p99(n) <= limit, 1, most)


def cores_with_a_cache(p99, limit, busy, cores):
    ask, low, high = functools.cache(p99), 1, _most_for_main(busy, cores)
    answer = None
    while low <= high:
        n = (low + high) // 2
        if ask(n) <= limit:
            answer, high = n, n - 1
        else:
            low = n + 1
    return answer


ANSWERS = {
    1: [latencies_by_pop_and_push, latencies_by_a_sorted_list, latencies_with_cores_named],
    2: [cores_by_bisect, cores_after_the_largest, cores_with_a_cache],
}
test_another_right_answer_passes = passing("04_serving/09_share_cores", ANSWERS)
