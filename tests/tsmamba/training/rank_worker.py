"""What each process of a shared training does; its test starts it alone and by torchrun.

``python rank_worker.py OUT CASE...`` fits once for each case, and writes what its rank saw. The
plain case trains once without each block of time, the others once.
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from safetensors.torch import save_file
from torch import distributed

from tsmamba import MambaForecaster, Network, Training
from tsmamba.forecast import estimator
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.network import CorrectorConfig

RANK = int(os.environ.get("RANK", "0"))
CASES = {
    "plain": {},
    "odd batch": {"batch_size": 7},
    "one window": {"batch_size": 1},
    "student-t": {"loss": "student-t"},
    "signs": {},
    "dropout": {"dropout": 0.3},
    "no seed": {"random_state": None},
    "one is late": {"max_steps": 10_000, "max_time": 1.0},
    "one is stopped": {"max_steps": 10_000},
    "one fails": {"max_steps": 10_000},
    "one is stuck": {"max_steps": 10_000},
    "other series": {},
    "of the user": {},
}
# Whatever hangs, and whoever started it, it ends.
LIMIT = 180


def frame(case):
    """Return two series, the second with holes: the parts of a batch then weigh unequally.

    They are sawtooths with noise, which a linear base cannot follow and a little training betters.
    """
    rng = np.random.default_rng(RANK if case == "other series" else 0)
    steps = np.arange(900)
    values = [(steps * pace % 1) ** 3 + 0.05 * rng.normal(size=900) for pace in (0.137, 0.071)]
    values[1][rng.random(900) < 0.3] = np.nan
    return pl.concat(
        pl.DataFrame({"unique_id": name, "ds": steps, "y": y})
        for name, y in zip("ab", values, strict=True)
    )


def disturb(case, step):
    """Do on one rank what all must answer alike."""
    if RANK == 1 and step == 5:
        if case == "one is late":
            time.sleep(1.1)
        if case == "one is stopped":
            os.kill(os.getpid(), signal.SIGINT)
        if case == "one fails":
            raise ZeroDivisionError("rank 1 fails")
        if case == "one is stuck":
            time.sleep(LIMIT)


def fit(case, out):
    """Fit, and write losses, errors, forecasts and weights."""
    settings = {"max_steps": 12, "batch_size": 32, "eval_every": 4, "lr": 0.01}
    settings |= {"random_state": 0, "dropout": 0}
    settings |= CASES[case]
    losses, trained = [], []

    def train(correction, corrector, split, training, on_step):
        def heard(step, loss):
            losses.append(loss)
            on_step(step, loss)
            disturb(case, step)

        history = train_before(correction, corrector, split, training, heard)
        trained.append((corrector, history))
        return history

    train_before, Correction.train = Correction.train, train
    estimator.CorrectorConfig = partial(CorrectorConfig, odd=case == "signs")
    shape = {"d_model": 8, "n_layers": 1, "d_state": 4, "dropout": settings.pop("dropout")}
    forecaster = MambaForecaster(
        6,
        mode="full",
        context_length=48,
        random_state=settings.pop("random_state"),
        network=Network(patch_length=12, **shape),
        training=Training(**settings),
        verbose=1,
    )
    forecaster.fit(frame(case), val_size=0 if case == "plain" else 120)
    Correction.train = train_before
    weights = {
        f"{number}.{name}": x
        for number, (corrector, _) in enumerate(trained)
        for name, x in corrector.state_dict().items()
    }
    name = f"{case}-{RANK}"
    save_file(weights, out / f"{name}.safetensors")
    seen = {
        "losses": losses,
        "errors": [error for _, history in trained for error in history.errors],
        "windows": sum(history.windows for _, history in trained),
        "interrupted": any(history.interrupted for _, history in trained),
        "forecast": forecaster.predict()["MambaForecaster"].to_list(),
        "joined": distributed.is_initialized(),
        "threads": [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")],
    }
    (out / f"{name}.json").write_text(json.dumps(seen))
    forecaster.save(out / f"{case}.tsm")


def main(out, *cases):
    signal.alarm(LIMIT)
    for case in cases:
        if case in ("of the user", "one is stuck"):
            distributed.init_process_group("gloo", timeout=timedelta(seconds=10))
        fit(case, Path(out))
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
