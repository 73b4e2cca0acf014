"""The checks of the scoreboard's lesson against right answers and every kind of wrong one."""

import numpy as np
from solved import solved
from wrong_answers import judge

LESSON = "02_ops/15_scoreboard"
contest_score, gap_closed = solved(LESSON, 1), solved(LESSON, 2)


def nan_passes(seconds, trained, steps, auc, bars):
    if any(auc[model] < bars[model] for model in seconds):
        return 864_000.0
    return sum(seconds[model] / trained[model] * steps[model] for model in seconds)


def strict_bar(seconds, trained, steps, auc, bars):
    if not all(auc[model] > bars[model] for model in seconds):
        return 864_000.0
    return sum(seconds[model] / trained[model] * steps[model] for model in seconds)


def one_weight_for_all(seconds, trained, steps, auc, bars):
    if not all(auc[model] >= bars[model] for model in seconds):
        return 864_000.0
    return sum(seconds.values()) / sum(trained.values()) * sum(steps.values())


def twice(seconds, trained, steps, auc, bars):
    contest_score(seconds, trained, steps, auc, bars)
    return contest_score(seconds, trained, steps, auc, bars)


def empties(seconds, trained, steps, auc, bars):
    right = contest_score(seconds, trained, steps, auc, bars)
    seconds.clear()
    return right


WRONG_SCORES = {
    "no-op": lambda *_: None,
    "a constant": lambda *_: 1307.17,
    "no bars": lambda seconds, trained, steps, auc, bars: sum(seconds[m] / trained[m] * steps[m] for m in seconds),
    "no weights": lambda seconds, trained, steps, auc, bars: sum(seconds[m] for m in seconds),
    "one weight for all": one_weight_for_all,
    "nan passes": nan_passes,
    "a strict bar": strict_bar,
    "looks twice": twice,
    "empties its input": empties,
    "low precision": lambda *given: float(np.float16(contest_score(*given) / 1e3)) * 1e3,
    "text": lambda *given: str(contest_score(*given)),
}
WRONG_GAPS = {
    "no-op": lambda *_: None,
    "a constant": lambda *_: 70.0,
    "a share": lambda stock, ours, floor: None if stock <= floor else (stock - ours) / (stock - floor),
    "of stock": lambda stock, ours, floor: None if stock <= floor else 100 * (stock - ours) / stock,
    "what is left": lambda stock, ours, floor: None if stock <= floor else 100 * (ours - floor) / (stock - floor),
    "never negative": lambda stock, ours, floor: None if stock <= floor else max(0.0, gap_closed(stock, ours, floor)),
    "divides by nothing": lambda stock, ours, floor: 100 * (stock - ours) / (stock - floor),
    "only where equal": lambda stock, ours, floor: None if stock == floor else 100 * (stock - ours) / (stock - floor),
    "low precision": lambda *times: None if gap_closed(*times) is None else float(round(gap_closed(*times))),
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (contest_score, WRONG_SCORES), 2: (gap_closed, WRONG_GAPS)}
)
