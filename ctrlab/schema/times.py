"""Recognizes times in forms that tables do not call so, such as seconds since 1970, digits and text, for `Schema.infer`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
SINCE, UNTIL = 946_684_800, 2_208_988_800
"""The seconds since 1970 at the beginning of 2000 and of 2040."""
_DATE, _HOUR = "(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])", "([01][0-9]|2[0-3])"
DIGITS = f"^((19|20)[0-9][0-9]{_DATE}({_HOUR}([0-5][0-9]){{0,2}})?|[0-4][0-9]{_DATE}{_HOUR})$"
"""20141021, 2014102100, 201410210059, 20141021005959 and 14102100."""
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?( ?[AaPp][Mm])?"
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DAY = (
    r"([0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2}"
    rf"|[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}})"
)
TEXT = rf"^({_DAY}([ T]+{_CLOCK}.*)?|{_CLOCK})$"


def form_of_time(values: pa.ChunkedArray) -> str | None:
    """The form of the times in a column of numbers or of text; None if a value is no time."""
    values = values.drop_null().unique()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        known = pc.all(pc.match_substring_regex(values, f"{TEXT}|{DIGITS}")).as_py()
        return f"text such as {values[0].as_py()!r}" if known else None
    if pa.types.is_integer(values.type) and pc.all(pc.match_substring_regex(values.cast(pa.string()), DIGITS)).as_py():
        return f"digits such as {values[0].as_py()}"
    least, most = (value.as_py() for value in pc.min_max(values).values())
    return next((f"{unit} since 1970" for unit, size in UNITS.items() if SINCE * size <= least and most < UNTIL * size), None)
