"""The race: the contest's six models on one score, each set of optimizations against the baseline.

`runner.race` runs it, `result.RaceResult` is what comes out, `score` turns that into seconds, ratios and verdicts, and
`report.write` into a page.
"""
