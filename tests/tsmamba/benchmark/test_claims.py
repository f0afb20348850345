import pytest

from tsmamba.benchmark.claims import CLAIMS, Claim, Measurement, Piece, Quantity


def measured(ratio: float, **options) -> Measurement:
    return Measurement(
        "forward", Quantity("ours", 2.0, "s"), Quantity("theirs", 2.0 * ratio, "s"), **options
    )


def test_every_piece_has_a_claim() -> None:
    assert list(CLAIMS) == list(Piece)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (17.9, "not reached here"),
        (18.1, "holds"),
        (30.0, "holds"),
        (43.9, "holds"),
        (44.1, "higher"),
    ],
)
def test_a_claim_holds_within_a_tenth(ratio: float, verdict: str) -> None:
    assert CLAIMS[Piece.parallel].verdict(measured(ratio)) == verdict


def test_a_saving_is_in_percent() -> None:
    claim = CLAIMS[Piece.latency]
    assert claim.value(measured(1 / 0.63)) == pytest.approx(37)
    assert claim.verdict(measured(1 / 0.63)) == "holds"
    assert claim.value(measured(0.5)) == pytest.approx(-100)
    assert claim.verdict(measured(0.5)) == "not reached here"


@pytest.mark.parametrize(
    ("exponent", "verdict"), [(0.8, "holds"), (1.05, "holds"), (2.0, "higher")]
)
def test_linear_means_an_exponent_of_one_or_less(exponent: float, verdict: str) -> None:
    fitted = Measurement("time", Quantity("ours", 2.0, "s"), exponent=exponent)
    assert fitted.ratio is None
    assert CLAIMS[Piece.length].verdict(fitted) == verdict


def test_nothing_is_judged_where_nothing_is_claimed_or_of_another_peer() -> None:
    assert CLAIMS[Piece.step].verdict(measured(5.0)) == "for comparison"
    assert CLAIMS[Piece.training].verdict(measured(4.0, judged=False)) == "for comparison"
    assert CLAIMS[Piece.training].verdict(measured(4.0)) == "holds"


def test_a_measurement_without_baseline_or_exponent_has_no_value() -> None:
    with pytest.raises(ValueError, match="neither a baseline nor an exponent"):
        Claim("fast", "an article").value(Measurement("forward", Quantity("ours", 2.0, "s")))
