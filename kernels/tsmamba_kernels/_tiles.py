"""Tile sizes of the Triton kernels: a file says which were measured to be fastest on a device.

The file is made by `kernels/benchmarks/gpu_tune.py`. Without one, or without an entry for a call,
the kernels take their own rule, so a tile never depends on what ran before: equal calls give equal
bits.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

VARIABLE = "TSMAMBA_TILES"

# Compile-time sizes of a kernel and the number of its warps, by the names that a launch takes.
Tile = Mapping[str, int]


def path() -> Path:
    """Return where the measured tiles lie: what the variable says, or the user's cache folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    folder = os.environ.get("XDG_CACHE_HOME")
    return (Path(folder) if folder else Path.home() / ".cache") / "tsmamba" / "tiles.json"


@cache
def table() -> dict[str, Tile]:
    """Return the measured tiles, read once a process; none from a file that is not ours."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: tile for key, tile in found.items() if _is_tile(tile)}


def _is_tile(x: object) -> bool:
    """Whether all of it are powers of two, as Triton wants tiles and warps."""
    return isinstance(x, dict) and all(
        type(size) is int and size > 0 and size & (size - 1) == 0 for size in x.values()
    )


def key(kernel: str, device: torch.device, sizes: Mapping[str, object]) -> str:
    """Spell what a tile was measured for: the kernel, the device's model, the sizes of the call."""
    model = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return ", ".join([kernel, model, *(f"{name} {size}" for name, size in sizes.items())])


def tile(kernel: str, device: torch.device, rule: Tile, sizes: Mapping[str, object]) -> Tile:
    """Return the measured tile of a kernel for such a call, or else that of its own rule.

    Parameters
    ----------
    kernel : str
        Its name.
    device : torch.device
        Where it runs.
    rule : mapping of str to int
        The tile by the kernel's own rule. A measured one with other names is not of this version.
    sizes : mapping of str to object
        What the best tile depends on.

    Returns
    -------
    mapping of str to int
    """
    if not table():  # the usual case, on the way of every launch
        return rule
    found = table().get(key(kernel, device, sizes), rule)
    return found if found.keys() == rule.keys() else rule


def save() -> None:
    """Write `table` to `path`, whole or not at all."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, delete=False
    ) as written:
        json.dump(table(), written, indent=1, sort_keys=True)
    Path(written.name).replace(target)
