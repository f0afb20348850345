"""MLflow for the estimators of tsmamba: fits as runs, models without pickle, serving.

Nothing here needs MLflow at import; each call says which extra to install where it is missing.

Examples
--------
>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> import tsmamba.mlflow
>>> from tsmamba import MambaDetector
>>> detector = MambaDetector("tiny").fit(np.arange(50.0)[:, None] % 5)
>>> with tempfile.TemporaryDirectory() as folder:
...     tsmamba.mlflow.save_model(detector, Path(folder) / "model")
...     again = tsmamba.mlflow.load_model(Path(folder) / "model")
>>> bool((again.anomaly_score([[9.0]]) == detector.anomaly_score([[9.0]])).all())
True
"""

from tsmamba.mlflow.autologging import autolog
from tsmamba.mlflow.flavor import load_model, log_model, save_model
from tsmamba.mlflow.pyfunc import _load_pyfunc as _load_pyfunc

__all__ = ["autolog", "load_model", "log_model", "save_model"]
