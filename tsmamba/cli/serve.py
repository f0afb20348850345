"""``tsmamba serve``: one model over HTTP, with a state for each series."""

import logging
import socket
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from tsmamba.cli.messages import plain_errors, say
from tsmamba.cli.signals import signals_to

if TYPE_CHECKING:
    from tsmamba.serving.app.models import ModelSource

app = typer.Typer()

_REGISTRY = "models:/"
# Seconds that requests under way may take once the service is to stop.
_GRACE = 10

_Model = Annotated[
    str,
    typer.Argument(help="Model file, or models:/NAME@ALIAS in MLflow's registry.", metavar="MODEL"),
]
_Host = Annotated[str, typer.Option(help="Address to listen at.")]
_Port = Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65_535)]
_Checkpoint = Annotated[
    Path | None,
    typer.Option(help="File that keeps the state; goes on from there.", dir_okay=False),
]
_Every = Annotated[float, typer.Option(help="Seconds between two checkpoints.", min=0.01)]
_Series = Annotated[
    int, typer.Option(help="Series kept; the one not used for longest goes first.", min=1)
]
_Body = Annotated[int, typer.Option(help="Bytes of a request.", min=1)]
_Watch = Annotated[
    float, typer.Option(help="Seconds between two looks for a newer model; 0 is never.", min=0.0)
]


@app.command()
def serve(
    model: _Model,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    checkpoint: _Checkpoint = None,
    checkpoint_every: _Every = 30.0,
    max_series: _Series = 10_000,
    max_body: _Body = 8_000_000,
    watch: _Watch = 0.0,
) -> None:
    """Serve MODEL over HTTP: scores of rows or lines as they come, or forecasts.

    The address goes to stderr. SIGTERM ends the service after a last checkpoint.
    """
    with plain_errors():
        from tsmamba._optional import require

        # Before anything that needs them, so that all that misses is one command.
        for package in ("fastapi", "prometheus_client", "uvicorn"):
            require(package, extra="serve")
        import uvicorn

        from tsmamba.serving.app.application import create_app
        from tsmamba.serving.app.service import Service

        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("tsmamba").setLevel(logging.INFO)
        with _bound(host, port) as listener, signals_to(Event()):
            service = Service(_source(model), max_series=max_series, checkpoint=checkpoint)
            application = create_app(
                service, max_body=max_body, checkpoint_every=checkpoint_every, watch=watch
            )
            listener.listen()
            address = f"[{host}]" if ":" in host else host
            where = f"http://{address}:{listener.getsockname()[1]}"
            say("note", f"{service.name}, version {service.version}, is served at {where}")
            config = uvicorn.Config(
                application,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="on",
                timeout_graceful_shutdown=_GRACE,
            )
            # It gives a signal on when it has ended; by then that means nothing any more.
            uvicorn.Server(config).run(sockets=[listener])


def _source(model: str) -> "ModelSource":
    if model.startswith(_REGISTRY):
        from tsmamba.cli.registry import RegistryModel

        return RegistryModel(model)
    from tsmamba.serving.app.models import FileModel

    return FileModel(Path(model))


def _bound(host: str, port: int) -> socket.socket:
    """Take a port, before a model is loaded that could then not be served."""
    from tsmamba.errors import ParameterError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio send small answers at once, not 40 ms later.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ParameterError(
            f"{host} port {port} cannot be served on ({error.strerror}); give another one, or "
            "--port 0 for a free one"
        ) from error
    return listener
