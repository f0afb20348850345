"""How long `tsmamba serve` takes for one request, over HTTP on loopback.

    python -m benchmarks.serving

starts the command on small fitted models, sends requests one after the other on one connection, and
prints the median and the 95th percentile of the time to the whole answer. ``/score`` gets one row
of two channels, of 100 series in turn; ``/forecast`` two series of 512 steps. The first answers are
compared with those of the estimators; if they differ, nothing is printed.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.forecast.run import environment
from tsmamba import MambaDetector, MambaForecaster
from tsmamba_datasets import make_seasonal

WARM, TIMED = 50, 500
SERIES = 100
START = datetime(2026, 1, 1)
_JSON = {"Content-Type": "application/json"}


@contextmanager
def served(model: Path) -> Iterator[HTTPConnection]:
    """Start the command on a model file, and end it afterwards.

    Parameters
    ----------
    model : Path
        What `save` wrote.

    Yields
    ------
    HTTPConnection
        Open.
    """
    code = "from tsmamba.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline() if process.stderr else ""
            found = re.search(r"http://([\d.]+):(\d+)", line)
            if found is None:
                raise SystemExit(f"the service did not start: {line}")
            yield HTTPConnection(found[1], int(found[2]))
        finally:
            process.terminate()


def post(connection: HTTPConnection, route: str, body: bytes) -> dict[str, Any]:
    """Send one request and read the whole answer.

    Parameters
    ----------
    connection : HTTPConnection
        Open; it stays so.
    route : str
        Path.
    body : bytes
        JSON.

    Returns
    -------
    dict
    """
    connection.request("POST", route, body, _JSON)
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer


def timed(connection: HTTPConnection, route: str, bodies: list[bytes]) -> str:
    """Return median and 95th percentile over requests, after some that are not counted.

    Parameters
    ----------
    connection : HTTPConnection
        Open.
    route : str
        Path.
    bodies : list of bytes
        ``WARM`` of them are sent before the clock starts.

    Returns
    -------
    str
        In milliseconds.
    """
    seconds = []
    for body in bodies:
        began = time.perf_counter()
        post(connection, route, body)
        seconds.append(time.perf_counter() - began)
    p50, p95 = np.quantile(seconds[WARM:], [0.5, 0.95]) * 1e3
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms over {len(bodies) - WARM} requests"


def score_rows(folder: Path) -> str:
    """Time ``/score``; see the module.

    Parameters
    ----------
    folder : Path
        Where the model is put.

    Returns
    -------
    str
    """
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(2_000)[:, None] / 8 + np.arange(2)) + 0.05 * rng.normal(
        size=(2_000, 2)
    )
    times = [START + timedelta(minutes=i) for i in range(2_000)]
    frame = pl.DataFrame(values, schema=["flow", "heat"]).with_columns(ds=pl.Series(times))
    detector = MambaDetector().fit(frame.head(1_000))
    detector.save(folder / "pumps")
    bodies = []
    for i in range(WARM + TIMED):
        series, step = i % SERIES, i // SERIES
        row = dict(zip(("flow", "heat"), values[1_000 + step].tolist(), strict=True))
        sent = {"series": f"p{series}", "time": times[1_000 + step].isoformat(), "values": row}
        bodies.append(json.dumps({"rows": [sent]}).encode())
    with served(folder / "pumps") as connection:
        rows = [json.loads(body)["rows"][0] for body in bodies[::SERIES]]
        many = [row | {"series": "checked"} for row in rows]
        got = post(connection, "/score", json.dumps({"rows": many}).encode())["results"]
        wanted = detector.stream().score_many(values[1_000 : 1_000 + len(rows)])
        if [row["status"] for row in got] != [result.status for result in wanted]:
            raise SystemExit("/score differs from the stream of the detector")
        return timed(connection, "/score", bodies)


def forecast(folder: Path) -> str:
    """Time ``/forecast``; see the module.

    Parameters
    ----------
    folder : Path
        Where the model is put.

    Returns
    -------
    str
    """
    history = make_seasonal(n_series=2, length=2_000)
    forecaster = MambaForecaster(24).fit(history)
    forecaster.save(folder / "load")
    sent = history.group_by("unique_id", maintain_order=True).tail(512)
    records = [row | {"ds": row["ds"].isoformat()} for row in sent.to_dicts()]
    body = json.dumps({"frame": records}).encode()
    with served(folder / "load") as connection:
        got = [row["MambaForecaster"] for row in post(connection, "/forecast", body)["forecast"]]
        if not np.allclose(got, forecaster.predict(df=sent)["MambaForecaster"], rtol=1e-5):
            raise SystemExit("/forecast differs from predict")
        return timed(connection, "/forecast", [body] * (WARM + TIMED))


def main() -> None:
    """Print the environment and both times.

    Examples
    --------
    >>> callable(main)
    True
    """
    sys.stdout.write(f"{environment(('fastapi', 'uvicorn', 'pydantic', 'torch'))}\n")
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"/score, one row: {score_rows(Path(folder))}\n")
        sys.stdout.write(f"/forecast, 2 series of 512 steps: {forecast(Path(folder))}\n")


if __name__ == "__main__":
    main()
