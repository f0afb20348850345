import json
from pathlib import Path

import pytest
from rich.console import Console

from tsmamba.benchmark.claims import CLAIMS, Finding, Measurement, Piece, Quantity
from tsmamba.benchmark.networks import ATTENTION, OURS
from tsmamba.benchmark.plot import check_format, draw
from tsmamba.benchmark.report import quantity, record, result, table
from tsmamba.errors import ParameterError

FINDINGS = {
    Piece.loop: Finding(
        [
            Measurement(
                "scan, forward",
                Quantity("our scan", 0.0214, "s"),
                Quantity("eager loop", 0.852, "s"),
            )
        ],
        notes=["a note"],
    ),
    Piece.latency: Finding(
        [Measurement("forward", Quantity(OURS, 0.2, "s"), Quantity(ATTENTION, 0.1, "s"))]
    ),
    Piece.length: Finding(
        [Measurement("time", Quantity(OURS, 4.0, "s"), exponent=0.987)],
        {OURS: [(1024, 0.1), (2048, 0.2)], ATTENTION: [(1024, 0.1), (2048, 0.4)]},
    ),
}


def test_the_table_has_claim_both_quantities_result_and_verdict(capsys) -> None:
    Console(width=160).print(table(FINDINGS))
    shown = capsys.readouterr().out
    for words in (
        "47x faster", "our scan 21.4 ms", "eager loop 852 ms", "39.8x", "not reached here",
        "100.0 % higher", "L^0.99", "holds", "Gu and Dao 2023",
    ):  # fmt: skip
        assert words in shown


def test_a_record_is_plain_json() -> None:
    loop = json.loads(json.dumps(record(Piece.loop, FINDINGS[Piece.loop])))
    assert loop["claimed"] == [47, 47]
    assert loop["notes"] == ["a note"]
    (measured,) = loop["measurements"]
    assert measured["ours"] == {"name": "our scan", "value": 0.0214, "unit": "s"}
    assert measured["value"] == pytest.approx(0.852 / 0.0214)
    assert measured["verdict"] == "not reached here"
    curves = record(Piece.length, FINDINGS[Piece.length])["curves"]
    assert curves[ATTENTION] == [[1024, 0.1], [2048, 0.4]]
    assert record(Piece.step, Finding([]))["claimed"] is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.34, "s", "12.3 s"),
        (0.0005, "s", "500 \N{MICRO SIGN}s"),
        (3e-10, "s", "0.30 ns"),
        (1536.0, "B", "1.50 KiB"),
        (3.0 * 2**30, "B", "3.00 GiB"),
    ],
)
def test_quantities_have_a_unit_of_their_size(value: float, unit, text: str) -> None:
    assert quantity(Quantity("it", value, unit)) == text


def test_large_ratios_keep_all_digits() -> None:
    measured = Measurement("state", Quantity("a", 1.0, "B"), Quantity("b", 3449.2, "B"))
    assert result(CLAIMS[Piece.memory], measured) == "3,449x"


def test_the_picture_has_curves_and_ratios(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = draw(FINDINGS, "somewhere", tmp_path / "bench.svg")
    assert (tmp_path / "bench.svg").stat().st_size > 0
    curves, ratios = figure.axes
    assert curves.get_xscale() == curves.get_yscale() == ratios.get_xscale() == "log"
    names = [text.get_text() for text in curves.get_legend().get_texts()]
    assert names == [f"{OURS}, time ~ $L^{{1.00}}$", f"{ATTENTION}, time ~ $L^{{2.00}}$"]
    assert [text.get_text() for text in ratios.texts] == ["39.8x", "0.5x"]
    assert figure._supxlabel.get_text() == "somewhere"


def test_a_saving_in_percent_is_drawn_as_the_ratio_that_it_means(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = draw({Piece.latency: FINDINGS[Piece.latency]}, "here", tmp_path / "bench.png")
    (claimed,) = [x for x in figure.axes[0].lines if x.get_label() == "claimed"]
    assert claimed.get_xdata() == pytest.approx([1 / 0.63, 1 / 0.63])


@pytest.mark.parametrize("piece", [Piece.loop, Piece.length])
def test_a_picture_of_one_half_has_one_panel(piece: Piece, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = draw({piece: FINDINGS[piece]}, "here", tmp_path / "bench.png")
    assert len(figure.axes) == 1


def test_a_format_that_cannot_be_drawn_is_refused() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ParameterError, match=r"cannot draw to bench\.txt: .*\.png"):
        check_format(Path("bench.txt"))
