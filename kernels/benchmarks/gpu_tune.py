"""Find the fastest tiles of the Triton kernels on this machine's CUDA device and keep them.

    python kernels/benchmarks/gpu_tune.py [--channels 128 256] [--width 4] [--states 16]

Each candidate must give what the kernel's own rule gives before it is timed. The winners go to the
file that TSMAMBA_TILES names, or to the user's cache folder, where later processes find them.
With --interpret, Triton's interpreter goes through it all on any machine; its times mean nothing.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tsmamba_kernels import _tiles, causal_conv1d, selective_scan
from tsmamba_kernels.testing import TOLERANCES, conv_inputs, relative_error, scan_inputs

DTYPES = (torch.float32, torch.bfloat16)


def conv_candidates(channels: int, width: int) -> Iterator[_tiles.Tile]:
    """Tiles of 4 to 64 elements a thread that are no wider than they need be."""
    for rows, lanes, warps in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (2, 4, 8)):
        if 4 <= rows * lanes // (32 * warps) <= 64 and lanes < 2 * channels and rows >= 2 * width:
            yield {"BLOCK_T": rows, "BLOCK_D": lanes, "num_warps": warps}


def scan_candidates(states: int) -> Iterator[_tiles.Tile]:
    """Tiles of 4 to 32 states a thread: more would not stay in registers."""
    for lanes, warps in itertools.product((8, 16, 32, 64, 128), (1, 2, 4, 8)):
        if 4 <= states * lanes // (32 * warps) <= 32:
            yield {"BLOCK_D": lanes, "num_warps": warps}


def seconds(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(run, return_mode="median") / 1e3
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fastest(
    place: str, run: Callable[[], tuple[Tensor, ...]], tiles: list[_tiles.Tile], device: str
) -> None:
    """Leave in the table the tile that beats the kernel's own rule, if one does."""
    from triton.runtime.errors import OutOfResources

    table = _tiles.table()
    table.pop(place, None)
    expected = run()
    times = {None: seconds(run, device)}
    for i, tile in enumerate(tiles):
        table[place] = tile
        try:
            found = run()
        except OutOfResources:
            continue
        for got, true in zip(found, expected, strict=True):
            if relative_error(got, true) > TOLERANCES[true.dtype].gradient:
                raise AssertionError(f"{place}: {tile} gives another result")
        times[i] = seconds(run, device)
    best = min(times, key=times.__getitem__)
    table.pop(place)
    if best is not None:
        table[place] = tiles[best]
    winner = "the rule" if best is None else tiles[best]
    print(f"{place}: {winner}, {times[best] * 1e6:.0f} us; the rule {times[None] * 1e6:.0f} us")


def tune_conv(channels: int, width: int, dtype: torch.dtype, device: str) -> None:
    rows = (8, 4096) if device == "cuda" else (1, 40)
    inputs = conv_inputs(*rows, channels, width, options=("bias",), dtype=dtype)
    operands = [x.to(device).requires_grad_() for x in inputs.values() if isinstance(x, Tensor)]

    def forward() -> tuple[Tensor, ...]:
        return (causal_conv1d(*operands, "silu", backend="triton"),)

    (out,) = forward()
    pulled = torch.ones_like(out)

    def backward() -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, operands, pulled, retain_graph=True)

    sizes = {"D": channels, "W": width, "dtype": dtype}
    tiles = list(conv_candidates(channels, width))
    for kernel, run in (("causal_conv_forward", forward), ("causal_conv_backward", backward)):
        fastest(_tiles.key(kernel, torch.device(device), sizes), run, tiles, device)


def tune_scan(states: int, dtype: torch.dtype, device: str) -> None:
    """Both passes at once: they have one tile, since the saved states lie by its blocks."""
    sizes = (8, 4096, 512) if device == "cuda" else (1, 9, 4)
    inputs = scan_inputs(*sizes, states, options=("D", "z", "delta_bias"), dtype=dtype)
    operands = {
        name: x.to(device).requires_grad_() for name, x in inputs.items() if isinstance(x, Tensor)
    }

    def run() -> tuple[Tensor, ...]:
        out = selective_scan(**operands, delta_softplus=True, backend="triton")
        grads = torch.autograd.grad(out, list(operands.values()), torch.ones_like(out))
        return out.detach(), *grads

    place = _tiles.key("selective_scan", torch.device(device), {"N": states, "dtype": dtype})
    fastest(place, run, list(scan_candidates(states)), device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, nargs="+", default=(128, 256, 512, 1536))
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--states", type=int, nargs="+", default=(16, 64))
    parser.add_argument("--interpret", action="store_true", help="go through it on the CPU")
    arguments = parser.parse_args()
    if arguments.interpret:
        # Triton looks when it is imported, which nothing has done so far.
        os.environ["TRITON_INTERPRET"] = "1"
    elif not torch.cuda.is_available():
        sys.exit("there is no CUDA device here whose tiles could be measured")
    device = "cpu" if arguments.interpret else "cuda"
    for channels, dtype in itertools.product(arguments.channels, DTYPES):
        tune_conv(channels, arguments.width, dtype, device)
    for states, dtype in itertools.product(arguments.states, DTYPES):
        tune_scan(states, dtype, device)
    _tiles.save()
    print(f"kept in {_tiles.path()}")


if __name__ == "__main__":
    main()
