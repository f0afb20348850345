"""Two Mamba blocks against a Transformer layer and an LSTM: training, inference, single steps."""

from collections.abc import Callable

import torch
from torch import Tensor

from tsmamba.benchmark.claims import Finding, Measurement, Quantity
from tsmamba.benchmark.networks import (
    ATTENTION,
    LSTM,
    NETWORKS,
    OURS,
    WIDTH,
    TransformerLayer,
    inference,
    training_step,
)
from tsmamba.benchmark.parity import check_equal
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.timing import percentiles, race
from tsmamba.nn import FusedStack, MambaStack

# The step is that of a deeper stack: with more layers there is more to call.
STREAMS, STEP_LAYERS = (1, 256), 4
# Steps after which a network fed step by step is held against its whole pass.
CHECKED_STEPS = 9


def measure_training(plan: Plan) -> Finding:
    """Race a training step against that of a Transformer layer and of an LSTM."""
    networks = {name: NETWORKS[name]() for name in (OURS, ATTENTION, LSTM)}
    length = plan.training_length
    x = torch.randn(1, length, WIDTH)
    best = race({name: training_step(net, x) for name, net in networks.items()}, plan.seconds)
    return Finding(
        [
            Measurement(
                f"training step (1, {length}, {WIDTH})",
                Quantity(OURS, best[OURS], "s"),
                Quantity(name, best[name], "s"),
                judged=name == ATTENTION,
            )
            for name in (ATTENTION, LSTM)
        ],
        notes=[
            ", ".join(
                f"{name}: {sum(weight.numel() for weight in net.parameters()):,} weights"
                for name, net in networks.items()
            )
        ],
    )


def measure_latency(plan: Plan) -> Finding:
    """Race a forward pass and a single step against those of a Transformer layer."""
    stack, layer = MambaStack(WIDTH, n_layers=2), TransformerLayer()
    length = plan.inference_length
    x = torch.randn(1, length, WIDTH)
    whole = race({"ours": inference(stack, x), "theirs": inference(layer, x)}, plan.seconds)
    step = percentiles(
        {"ours": _fused_step(stack, 1), "theirs": _decode_step(layer, x)}, plan.step_calls
    )
    return Finding(
        [
            Measurement(
                f"forward (1, {length}, {WIDTH})",
                Quantity(OURS, whole["ours"], "s"),
                Quantity(ATTENTION, whole["theirs"], "s"),
            ),
            Measurement(
                f"one step after {length - 1:,} others, median",
                Quantity("FusedStack.step", step["ours"][0], "s"),
                Quantity(f"{ATTENTION}, KV cache", step["theirs"][0], "s"),
            ),
        ]
    )


def measure_step(plan: Plan) -> Finding:
    """Time single steps from Python, of one stream and of many, in native code and in PyTorch.

    Of many, a quarter of the calls must do: one of the stack takes milliseconds.
    """
    stack = MambaStack(WIDTH, n_layers=STEP_LAYERS)
    measurements = []
    for streams in STREAMS:
        times = percentiles(
            {"ours": _fused_step(stack, streams), "theirs": _module_step(stack, streams)},
            plan.step_calls if streams == 1 else plan.step_calls // 4,
        )
        who = "1 stream" if streams == 1 else f"{streams} streams at once, each"
        for number, name in enumerate(("p50", "p99")):
            measured = Measurement(
                f"{who}, {STEP_LAYERS} blocks, {name}",
                Quantity("FusedStack.step", times["ours"][number] / streams, "s"),
                Quantity("MambaStack.step", times["theirs"][number] / streams, "s"),
            )
            measurements.append(measured)
    return Finding(measurements)


def _fused_step(stack: MambaStack, streams: int) -> Callable[[], Tensor]:
    """Return a step of the frozen copy with a warm state, checked against the stack."""
    fused = FusedStack(stack)
    x = torch.randn(streams, CHECKED_STEPS, WIDTH)
    state = fused.init_state(streams)
    for step in x.unbind(1):
        out = fused.step(step, state)
    with torch.no_grad():
        check_equal("FusedStack.step", out, stack(x)[:, -1])
    return lambda: fused.step(step, state)


def _module_step(stack: MambaStack, streams: int) -> Callable[[], None]:
    x, state = torch.randn(streams, WIDTH), stack.init_state(streams)

    @torch.no_grad()
    def run() -> None:
        stack.step(x, state)

    return run


def _decode_step(layer: TransformerLayer, x: Tensor) -> Callable[[], None]:
    """Return a step of attention over the cache of all but the last step, checked when short."""
    with torch.no_grad():
        short = x[:, -CHECKED_STEPS:]
        stepped = layer.step(short[:, -1], layer.cache(short[:, :-1]))
        check_equal("the step of attention", stepped, layer(short)[:, -1])
        cache = layer.cache(x[:, :-1])

    @torch.no_grad()
    def run() -> None:
        layer.step(x[:, -1], cache)

    return run
