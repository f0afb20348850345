"""The application: routes of the kind of model that is served, and work by the clock."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from tsmamba import __version__
from tsmamba.errors import FrameError, ParameterError
from tsmamba.serving.app.boundary import Boundary
from tsmamba.serving.app.engine import Engine
from tsmamba.serving.app.forecasts import ForecastEngine
from tsmamba.serving.app.lines import LineEngine
from tsmamba.serving.app.messages import (
    Description,
    ForecastReply,
    ForecastRequest,
    Health,
    LinesReply,
    LinesRequest,
    Problem,
    RowsReply,
    RowsRequest,
)
from tsmamba.serving.app.problems import STATUS, answer, invalid_text
from tsmamba.serving.app.rows import RowEngine
from tsmamba.serving.app.service import Service

__all__ = ["create_app"]

_log = logging.getLogger(__name__)
_JSON = "application/json"


def create_app(
    service: Service,
    *,
    max_body: int = 8_000_000,
    checkpoint_every: float = 30.0,
    watch: float = 0.0,
) -> FastAPI:
    """Make the application of a service.

    Parameters
    ----------
    service : Service
        What answers.
    max_body : int, default 8,000,000
        Bytes of a request at most.
    checkpoint_every : float, default 30
        Seconds between two checkpoints.
    watch : float, default 0
        Seconds between two looks for a newer model; 0 is never.

    Returns
    -------
    fastapi.FastAPI
        An ASGI application for exactly one process: the state lives in it.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs = [asyncio.create_task(_every(checkpoint_every, service.save))]
        if watch:
            jobs.append(asyncio.create_task(_every(watch, service.refresh)))
        service.ready = True
        yield
        service.ready = False
        for job in jobs:
            job.cancel()
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="tsmamba",
        summary=f"Scores and forecasts by {service.name}",
        version=__version__,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        responses=_refusals("internal"),
    )
    _add_common(app, service)
    _ROUTES[type(service.engine)](app, service)
    app.add_exception_handler(RequestValidationError, _refuse_request)
    app.add_exception_handler(HTTPException, _refuse_route)
    for kind in (FrameError, ParameterError):
        app.add_exception_handler(kind, _refuse_input)
    paths = [route.path for route in app.routes if isinstance(route, Route)]
    app.add_middleware(Boundary, metrics=service.metrics, routes=paths, max_body=max_body)
    return app


async def _every(seconds: float, work: Callable[[], None]) -> None:
    """Do something again and again in a thread, whatever comes of it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(work)
        except Exception:
            _log.exception("work by the clock failed")


def _refusals(*errors: str) -> dict[int | str, dict[str, Any]]:
    """Document what a route refuses."""
    return {STATUS[error]: {"model": Problem, "description": error} for error in errors}


_POSTED = _refusals("invalid_json", "too_large", "wrong_content_type", "invalid")


def _add_common(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=_refusals("not_ready"))
    async def health(response: Response) -> Health:
        """Tell whether the service answers."""
        if not service.ready:
            response.status_code = STATUS["not_ready"]
        return Health(
            live=True,
            ready=service.ready,
            calibrated=service.calibration.check().ok,
            model=service.name,
            version=service.version,
        )

    @app.get("/model")
    def model() -> Description:
        """Tell what the model is, and what it takes."""
        return service.describe()

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")


def _add_rows(app: FastAPI, service: Service) -> None:
    @app.post("/score", responses=_POSTED)
    def score(request: RowsRequest) -> RowsReply:
        """Score rows, each once: one that is not newer than the last of its series is skipped."""
        results = service.score_rows(request.rows)
        duplicates = sum(result.status == "duplicate" for result in results)
        return RowsReply(results=results, accepted=len(results) - duplicates, duplicates=duplicates)


def _add_lines(app: FastAPI, service: Service) -> None:
    @app.post("/score", responses=_POSTED | {200: {"model": LinesReply}})
    def score(request: LinesRequest) -> Response:
        """Score the lines of a stream, those with a number once."""
        results, episodes, duplicates = service.score_lines(
            request.lines, request.stream, request.first
        )
        # The records of the command, which are put together as text for speed.
        parts = [",".join([record.to_json() for record in part]) for part in (results, episodes)]
        accepted = len(request.lines) - duplicates
        body = (
            f'{{"results":[{parts[0]}],"episodes":[{parts[1]}],"accepted":{accepted},'
            f'"duplicates":{duplicates}}}'
        )
        return Response(body, media_type=_JSON)


def _add_forecast(app: FastAPI, service: Service) -> None:
    @app.post("/forecast", responses=_POSTED | {200: {"model": ForecastReply}})
    def forecast(request: ForecastRequest) -> ForecastReply:
        """Forecast the steps that follow the history in the request."""
        records = service.forecast(request.frame, request.horizon, request.quantiles)
        return ForecastReply(forecast=records)


_ROUTES: dict[type[Engine], Callable[[FastAPI, Service], None]] = {
    RowEngine: _add_rows,
    LineEngine: _add_lines,
    ForecastEngine: _add_forecast,
}


def _refuse_request(request: Request, error: Exception) -> Response:
    errors = cast(RequestValidationError, error).errors()
    broken = [each for each in errors if each["type"] == "json_invalid"]
    if broken:
        return answer("invalid_json", f"the body is no JSON: {broken[0]['ctx']['error']}")
    return answer("invalid", invalid_text(errors))


def _refuse_input(request: Request, error: Exception) -> Response:
    return answer("invalid", str(error))


def _refuse_route(request: Request, error: Exception) -> Response:
    refused = cast(HTTPException, error)
    kinds = {404: "not_found", 405: "method_not_allowed"}
    texts = {
        404: "there is no such route; GET /openapi.json lists them",
        405: "the route has other methods; GET /openapi.json lists them",
    }
    # All else that comes this way is a body that could not be read.
    kind = kinds.get(refused.status_code, "invalid_json")
    text = texts.get(refused.status_code, "the body is no JSON, or is nested too deeply")
    return answer(kind, text, dict(refused.headers or {}))
