"""What is sent to the service and what it answers; OpenAPI is made of these classes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tsmamba.serving.app.moments import Moment

__all__ = [
    "Description",
    "ForecastReply",
    "ForecastRequest",
    "Health",
    "LinesReply",
    "LinesRequest",
    "Problem",
    "Row",
    "RowResult",
    "RowsReply",
    "RowsRequest",
]

MOST_ROWS = 10_000
"""Rows or lines of a request."""
MOST_RECORDS = 100_000
"""Records of history of a request."""

_Name = Annotated[str, Field(min_length=1, max_length=256)]
# NaN and infinity are no JSON, though Python reads them.
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Scalar = bool | int | _Number | str | None


class _Message(BaseModel):
    """What is sent must be of its type, and hold nothing unknown."""

    model_config = ConfigDict(strict=True, extra="forbid", protected_namespaces=())


class Row(_Message):
    """One row of a series; null where a value is missing."""

    series: _Name
    time: Moment
    values: dict[str, _Number | None]


class RowsRequest(_Message):
    """Rows of one series or of several, each in the order of time."""

    rows: Annotated[list[Row], Field(min_length=1, max_length=MOST_ROWS)]


class RowResult(BaseModel):
    """What is said of a row.

    With a delay the score is that of an earlier row of the series, at `scored_time`.
    """

    series: str
    time: datetime | int
    status: Literal["ok", "warmup", "missing", "drift", "duplicate"]
    score: float | None = None
    p_value: float | None = None
    is_anomaly: bool = False
    contributions: dict[str, float | None] | None = None
    scored_time: datetime | int | None = None


class RowsReply(BaseModel):
    """A result for each row, in their order."""

    results: list[RowResult]
    accepted: int
    duplicates: int


class LinesRequest(_Message):
    """Lines of one stream in their order.

    `first` is the number of the first of them in the stream, from 1. Lines that were given before
    are then not scored again; without it they are taken to be new.
    """

    lines: Annotated[list[str], Field(min_length=1, max_length=MOST_ROWS)]
    stream: _Name = "lines"
    first: Annotated[int, Field(ge=1, le=2**53)] | None = None


class LinesReply(BaseModel):
    """Records as ``tsmamba logs score`` writes them, and the episodes that began or ended."""

    results: list[dict[str, Any]]
    episodes: list[dict[str, Any]]
    accepted: int
    duplicates: int


class ForecastRequest(_Message):
    """History to start from, a record for each series and step, with the columns of the fit."""

    frame: Annotated[list[dict[str, _Scalar]], Field(min_length=1, max_length=MOST_RECORDS)]
    horizon: Annotated[int, Field(ge=1, le=MOST_RECORDS)] | None = None
    quantiles: Annotated[list[_Number], Field(min_length=1, max_length=100)] | None = None


class ForecastReply(BaseModel):
    """A record for each series and step ahead."""

    forecast: list[dict[str, Any]]


class Health(BaseModel):
    """Whether the service answers, with which model, and whether its alerts are as rare as ever."""

    live: bool
    ready: bool
    calibrated: bool
    model: str
    version: str


class Description(BaseModel):
    """What the model is, and which columns it takes."""

    kind: str
    name: str
    version: str
    columns: dict[str, Any]
    settings: dict[str, Any]


class Problem(BaseModel):
    """The one shape of every refusal."""

    error: Literal[
        "internal",
        "invalid",
        "invalid_json",
        "method_not_allowed",
        "not_found",
        "not_ready",
        "too_large",
        "wrong_content_type",
    ]
    detail: str
