"""Refusals: one shape, a status for each kind, and never a traceback."""

import json
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

__all__ = ["Refusal", "answer", "invalid_text"]

STATUS = {
    "invalid_json": 400,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "wrong_content_type": 415,
    "invalid": 422,
    "internal": 500,
    "not_ready": 503,
}
"""HTTP status of each kind of refusal."""

# A request may be wrong in ten thousand places; some of them are enough to mend it.
_SHOWN = 5
_LONGEST = 500


class Refusal(Exception):
    """What the service does not do.

    Parameters
    ----------
    error : str
        Its kind, a key of `STATUS`.
    detail : str
        What was given, and what is accepted.
    """

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(detail)
        self.error = error
        self.detail = detail


def answer(error: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return the answer to what is refused.

    Parameters
    ----------
    error : str
        Its kind, a key of `STATUS`.
    detail : str
        The reason; a very long one is cut.
    headers : dict of str to str, optional
        To send along.

    Returns
    -------
    Response

    Examples
    --------
    >>> answer("not_found", "there is no such route").status_code
    404
    """
    cut = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]}..."
    # Half a surrogate pair, which a request may hold, is escaped as all else beyond ASCII is.
    body = json.dumps({"error": error, "detail": cut})
    return Response(body, STATUS[error], headers, media_type="application/json")


def invalid_text(errors: Sequence[dict[str, Any]]) -> str:
    """Put into words what pydantic found.

    Parameters
    ----------
    errors : sequence of dict
        With ``loc`` and ``msg``.

    Returns
    -------
    str

    Examples
    --------
    >>> invalid_text([{"loc": ("body", "rows", 0, "time"), "msg": "Field required"}])
    'rows.0.time: Field required'
    """
    told = []
    for error in errors[:_SHOWN]:
        place = ".".join(str(part) for part in error["loc"] if part != "body") or "body"
        told.append(f"{place}: {error['msg'].removeprefix('Value error, ')}")
    more = len(errors) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")
