"""The ids of requests: a label finds its example by the id that the client knows, byte for byte.

It comes in the header or the metadata `x-request-id`, else as `id` in a message of the open inference protocol. A request without
an id gets one. The answer has it as `x-request-id`, and in the message if it came there.
"""

from __future__ import annotations

import json
import re

from ctrlab.server.application import LONGEST_ID, shown
from ctrlab.serving.processor import Code, Format, Refused
from ctrlab.serving.wire import fields

ID = re.compile(rf"(?! )[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{0,{LONGEST_ID}}}(?<! )")
OUTPUTS = b', "outputs": ['
"""What follows the id in an answer in JSON; no name or id contains it, because their quotes are escaped."""


def require_id(id: str) -> None:
    """Raises Refused if an id is too long, or can't come back in a header. Bytes that are no UTF-8 are surrogates in it."""
    if not ID.fullmatch(id):
        raise Refused(
            Code.INVALID,
            f"A request's id is UTF-8 text of at most {LONGEST_ID} characters, without control characters or spaces around it; "
            f"received {len(id)} characters, {shown(ascii(id))}: send another, or none and take the one that comes back.",
        )


def id_in(answer: bytes, format: Format) -> str:
    """The id in an answer's message; "" if it has none."""
    if format == "infer":  # ModelInferResponse
        return fields(answer).get(3, b"").decode()
    if format == "infer_json":
        return json.loads(answer[: answer.index(OUTPUTS)] + b"}").get("id", "")
    return ""
