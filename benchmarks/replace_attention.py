"""What it takes to replace self-attention by Mamba in an encoder of ``torch.nn``.

    python -m benchmarks.replace_attention

counts parameters, and measures a forward pass and a training step of a transformer encoder before
and after, on one thread. Time is that of the processor, the least of some calls, so that what else
runs on the machine counts little. Memory is the peak of a process of its own beyond what it held
before the call. docs/networks.md shows the results.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.forecast.run import environment
from tsmamba.benchmark.probe import RETURN_FREED, peak_of
from tsmamba.nn import Mamba

WIDTH, HEADS, LAYERS = 64, 4, 2
LENGTHS = (512, 2048, 8192)
BEFORE, AFTER = "attention", "Mamba"
TASKS = FORWARD, TRAINING = "forward", "training step"


class InPlaceOfAttention(nn.Module):
    """Takes the place of `torch.nn.MultiheadAttention` where a sequence attends to itself.

    One `Mamba` reads forwards; unless ``causal``, a second one reads backwards, so that each step
    sees all others, as in an encoder. The order is known without positional encoding.

    Parameters
    ----------
    width : int
        Width of the sequence.
    causal : bool, default False
        Whether a step sees only itself and what came before.

    Examples
    --------
    >>> x = torch.randn(2, 100, 64)
    >>> InPlaceOfAttention(64)(x, x, x)[0].shape
    torch.Size([2, 100, 64])
    """

    # `torch.nn.TransformerEncoderLayer` asks for these; the last keeps it off its fused path, which
    # takes the weights of attention and computes without this module.
    batch_first = True
    in_proj_bias = None

    def __init__(self, width: int, *, causal: bool = False) -> None:
        super().__init__()
        self.forwards = Mamba(width, expand=1)
        self.backwards = None if causal else Mamba(width, expand=1, reverse=True)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Mix a sequence of shape (B, L, D), given three times.

        Raises
        ------
        ValueError
            If sequences differ, or a mask asks for what a scan cannot do.
        """
        if key is not query or value is not query:
            raise ValueError("a scan mixes one sequence: pass the same tensor three times")
        if attn_mask is not None:
            raise ValueError("a scan takes no attn_mask; causal=True makes it look back only")
        # The encoder has made 0 and -inf of False and True.
        seen = None if key_padding_mask is None else key_padding_mask == 0
        mixed = self.forwards(query, mask=seen)
        if self.backwards is not None:
            mixed = mixed + self.backwards(query, mask=seen)
        return mixed, None


def make_encoder() -> nn.TransformerEncoder:
    """Return the encoder before the change."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def replace_attention(encoder: nn.TransformerEncoder, *, causal: bool = False) -> None:
    """Put Mamba in the place of self-attention, layer by layer, with new weights."""
    for layer in encoder.layers:
        layer.self_attn = InPlaceOfAttention(layer.self_attn.embed_dim, causal=causal)


def make(name: str) -> nn.TransformerEncoder:
    """Return the encoder before or after the change."""
    torch.manual_seed(0)
    encoder = make_encoder()
    if name == AFTER:
        replace_attention(encoder)
    return encoder


def task(what: str, encoder: nn.TransformerEncoder, length: int) -> Callable[[], object]:
    """Return a call that does a forward pass in evaluation, or a training step."""
    x = torch.randn(1, length, WIDTH)
    encoder.train(what == TRAINING)

    def forward() -> None:
        with torch.no_grad():
            encoder(x)

    def training_step() -> None:
        encoder.zero_grad()
        encoder(x).square().mean().backward()

    return forward if what == FORWARD else training_step


def peaks(name: str, lengths: Sequence[int]) -> list[int]:
    """Return the peak memory of every task at every length, in bytes, from one process."""
    command = [sys.executable, "-m", "benchmarks.replace_attention", name, *map(str, lengths)]
    env = os.environ | RETURN_FREED | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def own_peaks(name: str, lengths: Sequence[int]) -> list[int]:
    """Return the same of this process."""
    encoder = make(name)
    for what in TASKS:
        task(what, encoder, lengths[0])()  # what is loaded at the first call is not counted
    return [peak_of(task(what, encoder, length)) for what in TASKS for length in lengths]


def seconds(run: Callable[[], object], calls: int) -> float:
    """Return the least processor time of a call."""
    times = []
    for _ in range(calls):
        before = time.process_time()
        run()
        times.append(time.process_time() - before)
    return min(times)


def measure(lengths: Sequence[int] = LENGTHS, calls: int = 3) -> list[str]:
    """Return a table of what both encoders take."""
    encoders = {name: make(name) for name in (BEFORE, AFTER)}
    counts = [sum(p.numel() for p in encoder.parameters()) for encoder in encoders.values()]
    memory = [peaks(name, lengths) for name in encoders]
    lines = [
        f"| | time, {BEFORE} | time, {AFTER} | memory, {BEFORE} | memory, {AFTER} |",
        "| --- | --- | --- | --- | --- |",
        f"| parameters | {counts[0]:,} | {counts[1]:,} | | |",
    ]
    for what in TASKS:
        for length in lengths:
            runs = [task(what, encoder, length) for encoder in encoders.values()]
            cells = [f"{_rounded(1e3 * seconds(run, calls))} ms" for run in runs]
            cells += [f"{_rounded(peak.pop(0) / 2**20)} MiB" for peak in memory]
            lines.append(f"| {what}, L = {length:,} | {' | '.join(cells)} |")
    return lines


def _rounded(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{float(f'{value:.3g}'):,g}"


def main(arguments: Sequence[str]) -> None:
    """Print the table, or the peaks of the encoder that is named."""
    torch.set_num_threads(1)
    if arguments:
        name, *lengths = arguments
        lines = [str(peak) for peak in own_peaks(name, [int(length) for length in lengths])]
    else:
        lines = [json.dumps(environment(("torch",))), "", *measure()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
