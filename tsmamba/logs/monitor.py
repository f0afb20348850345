"""Counters of a running scorer over HTTP, in Prometheus' text format.

A few lines on the standard library: the client library would be one more dependency for a page of
numbers.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self

from tsmamba.errors import ParameterError
from tsmamba.logs.service import Counters

__all__ = ["Monitor", "page"]

_HELP = {
    "lines": ("counter", "Records read."),
    "lines_unparsed": ("counter", "Records with something amiss."),
    "results": ("counter", "Results."),
    "alerts": ("counter", "Results above the alert threshold."),
    "templates": ("gauge", "Templates known."),
    "bytes_lost": ("counter", "Bytes lost while nobody read."),
    "checkpoints": ("counter", "Commits."),
    "checkpoint_time": ("gauge", "Unix time of the last commit."),
    "seconds_scoring": ("counter", "Seconds spent scoring and writing."),
}


def page(counters: Counters) -> str:
    """Return the counters as text.

    Examples
    --------
    >>> print(page(Counters(lines=3)).splitlines()[2])
    tsmamba_logs_lines_total 3
    """
    lines = []
    for name, (kind, text) in _HELP.items():
        metric = f"tsmamba_logs_{name}" + ("_total" if kind == "counter" else "")
        lines += [
            f"# HELP {metric} {text}",
            f"# TYPE {metric} {kind}",
            f"{metric} {getattr(counters, name):.12g}",
        ]
    return "\n".join(lines) + "\n"


class Monitor:
    """Serves the counters on loopback while a scorer runs.

    Parameters
    ----------
    counters : Counters
        What is served.
    port : int
        Port on loopback; 0 takes a free one, see :attr:`port`.

    Raises
    ------
    ParameterError
        If the port is taken, or is none.
    """

    def __init__(self, counters: Counters, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page(counters).encode() if self.path == "/metrics" else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: stderr is for what matters."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "from 0 to 65535"
            raise ParameterError(
                f"port {port} cannot be served on ({reason}); give another one, or 0 for a free one"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
