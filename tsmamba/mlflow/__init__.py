"""tsmamba in MLflow: fits as runs.

Nothing here needs MLflow at import; each call says which extra to install where it is missing.
"""

from tsmamba.mlflow.autologging import autolog

__all__ = ["autolog"]
