"""The distance of patches: the compiled kernel against the reference, and its laws."""

import pytest
import torch
from torch import Tensor

from tsmamba_kernels import PatchIndex, backend_report
from tsmamba_kernels.errors import BackendUnavailableError, ShapeError
from tsmamba_kernels.patch_distance.reference import FORMS, embed

WIDTHS = (1, 3, 16, 64, 127, 128, 200, 400)


def series(batch: int, length: int, channels: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(batch, length, channels, generator=generator, dtype=torch.float64)
    return steps.cumsum(1)


def memory(channels: int, patches: int, width: int) -> tuple[Tensor, Tensor]:
    starts = 2 * torch.arange(patches)
    whole = series(channels, 2 * patches + width, 1, seed=1)[..., 0]
    return torch.stack([whole[:, s : s + width] for s in starts.tolist()], 1), starts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("batch", "channels", "patches"), [(1, 1, 33), (3, 2, 16), (2, 3, 1)])
@pytest.mark.parametrize("apart", [0, 4])
def test_native_equals_the_reference(
    form: str, width: int, batch: int, channels: int, patches: int, apart: int
) -> None:
    patch, starts = memory(channels, patches, width)
    values = series(batch, width + 9, channels)
    queries = range(0, 10, 2)
    native, reference = (
        PatchIndex(patch, form, starts, backend=backend).distances(
            values, queries, apart=apart, offset=3
        )
        for backend in ("native", "reference")
    )
    # Points are single precision in the kernel, and so are raw ones of great level.
    unit = 1 + values.abs().max() if form == "raw" else 1
    torch.testing.assert_close(native / unit, reference / unit, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("width", WIDTHS)
def test_windows_do_not_influence_each_other(width: int) -> None:
    index = PatchIndex(memory(2, 50, width)[0], "half")
    values = series(3, width + 11, 2)
    together = index.distances(values, range(11))
    one_by_one = torch.cat([index.distances(values, range(i, i + 1)) for i in range(11)], 1)
    alone = torch.cat([index.distances(row[None], range(11)) for row in values])
    assert torch.equal(together, one_by_one)
    assert torch.equal(together, alone)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("batch", [4, 9])
def test_series_do_not_influence_each_other(batch: int, backend: str) -> None:
    patch, starts = memory(2, 50, 16)
    index = PatchIndex(patch, "half", starts, backend=backend)
    values = series(batch, 27, 2)
    for apart in (0, 4):
        together = index.distances(values, range(11, 12), apart=apart, offset=30)
        alone = [
            index.distances(row[None], range(11, 12), apart=apart, offset=30) for row in values
        ]
        assert torch.equal(together, torch.cat(alone))


def test_a_patch_is_at_no_distance_from_itself_but_for_those_near() -> None:
    values = series(1, 300, 1)
    starts = torch.arange(0, 281, 10)
    patches = torch.stack([values[0, s : s + 20, 0] for s in starts.tolist()])[None]
    index = PatchIndex(patches, "z", starts)
    assert index.distances(values, range(0, 281, 10)).max() < 1e-6
    assert index.distances(values, range(0, 281, 10), apart=20).min() > 1e-3
    moved = index.distances(values[:, 100:], range(0, 181, 10), apart=20, offset=100)
    assert torch.equal(moved, index.distances(values, range(100, 281, 10), apart=20))


def test_no_patch_left_is_infinitely_far() -> None:
    index = PatchIndex(torch.zeros(1, 1, 4), "raw", torch.tensor([2]))
    assert torch.isinf(index.distances(torch.zeros(1, 9, 1), range(1), apart=5)).all()


def test_more_patches_are_never_farther() -> None:
    patches, _ = memory(1, 90, 16)
    values = series(1, 100, 1)
    few, many = (
        PatchIndex(part, "half").distances(values, range(80)) for part in (patches[:, :30], patches)
    )
    assert (many <= few).all()


def test_forms_are_blind_to_what_they_leave_out() -> None:
    window = series(1, 64, 1)[0, :, 0]
    torch.testing.assert_close(embed(3 * window + 7, "z"), embed(window, "z"))
    torch.testing.assert_close(embed(window + 7, "half"), embed(window, "half"))
    torch.testing.assert_close(embed(4 * window, "half"), 2 * embed(window, "half"))


def test_constant_windows_have_a_distance() -> None:
    index = PatchIndex(torch.zeros(1, 3, 32), "z")
    assert torch.equal(
        index.distances(torch.ones(1, 32, 1), range(1)).flatten(),
        torch.zeros(1, dtype=torch.float64),
    )


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("form 'x'", lambda: PatchIndex(torch.zeros(1, 1, 4), "x")),
        ("patches have shape", lambda: PatchIndex(torch.zeros(1, 4), "z")),
        ("starts have shape", lambda: PatchIndex(torch.zeros(1, 2, 4), "z", torch.zeros(3))),
        (
            "values have shape",
            lambda: PatchIndex(torch.zeros(1, 2, 4), "z").distances(torch.zeros(1, 9, 2), range(1)),
        ),
        (
            "do not lie in 9 rows",
            lambda: PatchIndex(torch.zeros(1, 2, 4), "z").distances(torch.zeros(1, 9, 1), range(9)),
        ),
        (
            "do not lie in 9 rows",
            lambda: PatchIndex(torch.zeros(1, 2, 4), "z").distances(
                torch.zeros(1, 9, 1), range(-1, 2)
            ),
        ),
        (
            "apart needs the starts",
            lambda: PatchIndex(torch.zeros(1, 2, 4), "z").distances(
                torch.zeros(1, 9, 1), range(1), apart=2
            ),
        ),
    ],
)  # fmt: skip
def test_refuses_what_does_not_fit(message: str, call: object) -> None:
    with pytest.raises(ShapeError, match=message):
        call()  # type: ignore[operator]


def test_tells_its_backend() -> None:
    PatchIndex(torch.zeros(1, 1, 4), "raw")
    assert backend_report()["patch_distance"] == "native"
    with pytest.raises(BackendUnavailableError, match="no triton kernel"):
        PatchIndex(torch.zeros(1, 1, 4), "raw", backend="triton")


@pytest.mark.parametrize("width", [4, 64, 127, 128, 200, 1_000])
def test_a_squared_distance_is_a_mean_over_rows_at_any_width(width: int) -> None:
    index = PatchIndex(torch.zeros(1, 1, width), "raw")
    distance = index.distances(torch.full((1, width, 1), 3.0), range(1))
    assert distance.item() == pytest.approx(3, rel=1e-6)


def test_the_newest_rows_of_a_long_window_count() -> None:
    old, new = torch.zeros(200), torch.zeros(200)
    old[0] = new[-1] = 1.0  # 200 rows are 66 blocks of 3 and 2 rows left over
    assert not embed(old, "raw").any()
    assert embed(new, "raw")[-1] > 0
