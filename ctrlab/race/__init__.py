"""The race: trains the contest's six models with each set of optimizations, and scores each set against the baseline.

`runner.race` runs it, and `result.RaceResult` is its result. `score` computes seconds, ratios and verdicts, and `report.write`
makes a page of them.
"""
