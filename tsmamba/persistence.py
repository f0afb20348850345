"""Model files: one safetensors file that holds weights, settings and a check sum. No pickle.

The settings are JSON in the file's own header, under a format version; the check sum covers both,
so a file that was cut short, altered or written by a later version is refused, with the reason.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tsmamba._files import write_whole
from tsmamba.errors import ModelFileError

FORMAT_VERSION = 1


def save_model(
    path: str | os.PathLike[str], kind: str, settings: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : str or path
        The file; replaced if it exists.
    kind : str
        Class of the estimator.
    settings : dict
        Plain values that JSON can hold.
    tensors : dict of str to Tensor
        Weights.

    Raises
    ------
    ModelFileError
        If the folder does not exist or cannot be written.
    """
    # Clones, because safetensors refuses tensors that share memory.
    contiguous = {
        name: x.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, x in sorted(tensors.items())
    }
    header = {
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "settings": json.dumps(settings, sort_keys=True, default=_plain),
    }
    header["sha256"] = _digest(header, contiguous)
    write_whole(path, save(contiguous, metadata=header))


def load_model(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model file.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        Class of the estimator that asks.

    Returns
    -------
    settings : dict
        As they were saved.
    tensors : dict of str to Tensor
        Weights, on the CPU.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is damaged, altered, of another class or a later version.
    """
    name = repr(str(path))
    if not Path(path).is_file():
        raise ModelFileError(f"there is no model file {name}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            # A file packs tensors tightly; copies lie where sums have always the same order.
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"{name} is not a whole model file ({error}); save the model again or copy it anew"
        ) from error
    version = header.get("format_version")
    if version is None or "settings" not in header:
        raise ModelFileError(f"{name} is a safetensors file, but not one that tsmamba wrote")
    if version != str(FORMAT_VERSION):
        raise ModelFileError(
            f"{name} has format version {version}, this tsmamba reads {FORMAT_VERSION}; "
            "upgrade tsmamba or save the model again"
        )
    if header.get("sha256") != _digest(header, tensors):
        raise ModelFileError(f"{name} was altered after it was saved: its check sum does not match")
    if header.get("kind") != kind:
        raise ModelFileError(f"{name} holds a {header.get('kind')}; load it with that class")
    return json.loads(header["settings"]), tensors


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of their names.

    Examples
    --------
    >>> list(under({"0.weight": torch.ones(1), "1.weight": torch.ones(1)}, "0."))
    ['weight']
    """
    return {
        name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)
    }


def _plain(value: Any) -> Any:
    """Give numbers and arrays of numpy, which users pass as parameters, as JSON types."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be saved; give parameters as plain numbers, text and lists")


def _digest(header: dict[str, str], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for key in ("format_version", "kind", "settings"):
        digest.update(header.get(key, "").encode())
    for name in sorted(tensors):
        x = tensors[name]
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}".encode())
        digest.update(x.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
