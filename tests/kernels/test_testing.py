"""The parity check itself: it must see what is wrong, and say so."""

import pytest
import torch

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.testing import (
    CONV_OPTIONS,
    LAYOUTS,
    SCAN_OPTIONS,
    ParityError,
    check_parity,
    conv_inputs,
    masks,
    relative_error,
    scan_inputs,
    with_layout,
)


def test_relative_error_is_a_ratio_of_root_mean_squares():
    expected = torch.tensor([3.0, 4.0])
    assert relative_error(expected * 1.01, expected) == pytest.approx(0.01, rel=1e-4)
    assert relative_error(torch.ones(2), torch.zeros(2)) == 1.0
    assert relative_error(torch.tensor([3.0, torch.nan]), expected) == torch.inf
    assert relative_error(torch.empty(0), torch.empty(0)) == 0.0
    with pytest.raises(ParityError, match=r"shape \(2,\) instead of \(3,\)"):
        relative_error(torch.ones(2), torch.ones(3))


def test_a_wrong_output_is_found():
    def spoiled(**arguments):
        out = causal_conv1d(**arguments)[0]
        return out if arguments["backend"] == "reference" else out + 1e-3

    with pytest.raises(ParityError, match=r"output 0: \S+ > 1e-05"):
        check_parity(spoiled, conv_inputs())


def test_a_wrong_gradient_is_found():
    def spoiled(**arguments):
        if arguments["backend"] != "reference":
            arguments["A"] = arguments["A"].detach() * 1.0 + 0.0 * arguments["A"]
        return selective_scan(**arguments)

    with pytest.raises(ParityError, match="gradient of A") as caught:
        check_parity(spoiled, scan_inputs(length=9))
    assert "gradient of B" not in str(caught.value)


@pytest.mark.parametrize(
    ("draw", "options"), [(scan_inputs, SCAN_OPTIONS), (conv_inputs, CONV_OPTIONS)]
)
def test_inputs_are_the_same_for_every_type_and_choice_of_options(draw, options):
    full = draw(length=9)
    assert set(options) <= set(full)
    assert not set(options) & set(draw(length=9, options=()))
    short = draw(length=9, options=(), dtype=torch.bfloat16)
    for name, x in short.items():
        if isinstance(x, torch.Tensor):
            torch.testing.assert_close(x.float(), full[name], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_differ_in_memory_only(layout):
    x = torch.randn(3, 4, 5)
    y = with_layout(x, layout)
    assert torch.equal(y, x[:1].expand(x.shape) if layout == "expanded" else x)
    assert (layout == "contiguous") == y.is_contiguous()


def test_every_mask_pattern_of_a_real_size_is_its_own():
    patterns = list(masks(2, 12).values())
    assert len({pattern.numpy().tobytes() for pattern in patterns}) == len(patterns)
