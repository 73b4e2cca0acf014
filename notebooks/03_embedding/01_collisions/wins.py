"""How often a row for each id came out ahead of hashed ones, in the recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ctrlab.lessons.embedding_charts import against_perfect


def wins(runs: Iterable[Mapping], perfect: str = "perfect") -> str:
    """A table in text: how often one row per id was better than "hashed" of each size, for each model and kind of rows.

    Args:
        perfect: the way with one row per id: "perfect" or "variable".
    """
    heading = f"{perfect} ahead"
    lines = [f" model     rows  rare ids make  drift makes  rows for each id  in company  {heading}     by"]
    kinds: dict[tuple, list] = {}
    for run in runs:
        kinds.setdefault((run["model"], run["rows"], run["rare"], run["drift"]), []).append(run)
    for (model, rows, rare, drift), alike in sorted(kinds.items()):
        company = {run["compression"]: run["collisions"] for run in alike if run["way"] == "hashed"}
        for compression, _, gaps in against_perfect(alike, perfect).get("hashed", ()):
            ahead = f"{sum(gap < 0 for gap in gaps)} of {len(gaps)}"
            row = f"{model:>6} {rows:8,}  {rare:13.0%}  {drift:11.0%}  {1 / compression:16.2f}  {company[compression]:10.0%}"
            lines.append(f"{row}  {ahead:>{len(heading)}}  {-np.mean(gaps):+.4f}")
    return "\n".join(lines)
