import pytest
import torch

from tsmamba.nn import MambaStack
from tsmamba_kernels import backend_report

WIDTH = 12
HYBRID = {
    "A_init": "log-uniform",
    "selection": "gain",
    "tied_A": True,
    "attention_at": (1,),
    "n_heads": 3,
}


@pytest.fixture
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def _native():
    """The reference is a loop over time, which a graph for every length cannot hold."""
    reason = backend_report()["native"]
    if not reason.startswith("available"):
        pytest.skip(reason)


def run(stack, encode, x, weights, **steps):
    stack.zero_grad()
    given = x.clone().requires_grad_()
    out = encode(given, **steps)
    (out * weights).sum().backward()
    return [out, given.grad, *(p.grad for p in stack.parameters())]


@pytest.mark.slow
@pytest.mark.usefixtures("_fresh_dynamo", "_native")
@pytest.mark.parametrize(
    ("options", "bidirectional", "uneven"),
    [({}, False, False), ({}, True, True), (HYBRID, False, True)],
    ids=["causal", "bidirectional", "hybrid"],
)
def test_a_stack_compiles_to_one_graph_for_every_length(options, bidirectional, uneven):
    stack = MambaStack(WIDTH, 2, 4, bidirectional=bidirectional, **options)
    compiled = torch.compile(stack, fullgraph=True, dynamic=True, backend="aot_eager")
    for length, stance in ((9, "default"), (33, "fail_on_recompile"), (130, "fail_on_recompile")):
        x, weights, scale = torch.randn(3, 2, length, WIDTH)
        steps = {}
        if uneven:
            steps = {"mask": torch.rand(2, length) < 0.8, "delta_scale": scale[..., 0].abs()}
        expected = run(stack, stack, x, weights, **steps)
        with torch.compiler.set_stance(stance):
            actual = run(stack, compiled, x, weights, **steps)
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
