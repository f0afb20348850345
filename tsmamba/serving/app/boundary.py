"""The outermost layer of the application: what goes in, what comes out, and how long it took."""

import logging
import time
from collections.abc import Collection
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tsmamba.serving.app.metrics import Metrics
from tsmamba.serving.app.problems import STATUS, Refusal, answer

__all__ = ["Boundary"]

_log = logging.getLogger(__name__)
_KINDS = {status: error for error, status in STATUS.items()}


class Boundary:
    """Refuses bodies that are too large or no JSON, counts, and keeps our own faults inside.

    Parameters
    ----------
    app : ASGIApp
        What is inside.
    metrics : Metrics
        Where requests are counted.
    routes : collection of str
        Paths that are counted by name.
    max_body : int
        Bytes of a body at most.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, routes: Collection[str], max_body: int
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = frozenset(routes)
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            whole = await self._whole(scope, receive)
            await self._app(scope, whole, watched)
        except Refusal as refusal:
            await answer(refusal.error, refusal.detail)(scope, receive, watched)
        except Exception:
            name = uuid4().hex[:12]
            _log.exception("request %s failed: %s %s", name, scope["method"], scope["path"])
            if status:
                raise
            detail = f"the service failed; its log has the reason under {name}"
            await answer("internal", detail)(scope, receive, watched)
        self._count(scope["path"], status, time.perf_counter() - began)

    async def _whole(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body, so that its size is known before anything is made of it."""
        if scope["method"] != "POST":
            return receive
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                "wrong_content_type",
                f"content type {kind or 'none'!r}; send JSON with the header "
                "'Content-Type: application/json'",
            )
        length = headers.get("content-length", "")
        self._check_size(int(length) if length.isdecimal() else 0)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self._check_size(size)
            more = message.get("more_body", False)
        body: list[Message] = [{"type": "http.request", "body": b"".join(parts)}]

        async def again() -> Message:
            return body.pop() if body else await receive()

        return again

    def _check_size(self, size: int) -> None:
        if size > self._max_body:
            raise Refusal(
                "too_large",
                f"a body of {size} bytes or more, and {self._max_body} are accepted; send it in "
                "parts, or start the service with a higher --max-body",
            )

    def _count(self, path: str, status: int, seconds: float) -> None:
        route = path if path in self._routes else "other"
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if status in _KINDS:
            self._metrics.invalid.labels(_KINDS[status]).inc()
