"""The contestants compute the same; a benchmark of different things would say nothing."""

import pytest
import torch

from tsmamba.benchmark import measure_scans, networks
from tsmamba.benchmark.networks import NETWORKS, WIDTH, TransformerLayer, training_step
from tsmamba.benchmark.parity import check_equal, check_scan
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.scans import loop_scan, mambapy_scan, our_scan, transformers_block
from tsmamba.errors import MissingExtraError
from tsmamba.nn import Mamba
from tsmamba_kernels import selective_scan
from tsmamba_kernels.testing import ParityError, relative_error, scan_inputs

SCANS = {"ours": lambda: our_scan, "loop": lambda: loop_scan, "mambapy": mambapy_scan}


@pytest.mark.parametrize("name", SCANS)
def test_scans_equal_the_reference_with_all_gradients(name: str) -> None:
    if name == "mambapy":
        pytest.importorskip("mambapy")
    inputs = scan_inputs(2, 37, 6, 5, options=(), dtype=torch.float64)
    leaves = [x.requires_grad_() for x in inputs.values() if isinstance(x, torch.Tensor)]
    expected = selective_scan(*leaves, delta_softplus=True, backend="reference")
    actual = SCANS[name]()(*leaves)
    pulled = torch.randn_like(expected)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual, leaves, pulled), torch.autograd.grad(expected, leaves, pulled)
    )


@pytest.mark.slow
def test_the_block_of_transformers_equals_ours() -> None:
    pytest.importorskip("transformers")
    ours, x = Mamba(WIDTH), torch.randn(2, 19, WIDTH)
    theirs = transformers_block(ours)
    torch.testing.assert_close(theirs(x), ours(x))
    names = dict(ours.named_parameters())
    gradients = dict(zip(names, torch.autograd.grad(ours(x).sum(), names.values()), strict=True))
    theirs(x).sum().backward()
    for name, weight in theirs.named_parameters():
        assert relative_error(weight.grad, gradients[name]) < 1e-4, name


def test_attention_fed_step_by_step_equals_its_whole_pass() -> None:
    layer, x = TransformerLayer(), torch.randn(3, 7, WIDTH)
    cache = layer.cache(x[:, :-1])
    assert cache.shape == (2, 3, networks.HEADS, 7, WIDTH // networks.HEADS)
    with torch.no_grad():
        torch.testing.assert_close(layer.step(x[:, -1], cache), layer(x)[:, -1])


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_see_no_future(name: str) -> None:
    network, x = NETWORKS[name](), torch.randn(1, 11, WIDTH)
    changed = x.clone()
    changed[:, 6:] += 1.0
    with torch.no_grad():
        before, after = network(x), network(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_reaches_every_weight(name: str, monkeypatch) -> None:
    seen = []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *x: seen.extend(grad(*x)))
    network = NETWORKS[name]()
    training_step(network, torch.randn(1, 9, WIDTH))()
    assert len(seen) == len(list(network.parameters()))
    assert all(gradient.abs().sum() > 0 for gradient in seen)


def test_a_contestant_with_other_numbers_is_refused() -> None:
    check_scan()
    x = torch.randn(5)
    check_equal("a twin", x, x)
    with pytest.raises(ParityError, match="a cheat differs by"):
        check_equal("a cheat", 1.001 * x, x)


def test_a_wrong_rival_ends_the_piece(monkeypatch) -> None:
    monkeypatch.setattr(measure_scans, "loop_scan", lambda *x: our_scan(*x) * 1.01)
    with pytest.raises(ParityError, match="eager loop over time"):
        measure_scans.measure_loop(Plan(scan=(1, 16, 4, 2)))


@pytest.mark.parametrize("make", [mambapy_scan, lambda: transformers_block(Mamba(8))])
def test_an_absent_peer_is_named_with_its_command(make, no_peers) -> None:
    with pytest.raises(MissingExtraError, match=r'pip install "tsmamba\[bench\]"'):
        make()
