import pytest

from tsmamba.records.ranges import _ALIASES, RANGES, range_of


@pytest.mark.parametrize("name", RANGES)
def test_every_range_has_room_and_its_conversions_can_be_needed(name):
    known = RANGES[name]
    assert known.low < known.high
    for factor, offset, unit in known.other:
        ends = [(limit - offset) / factor for limit in (known.low, known.high)]
        assert not known.low <= min(ends) <= max(ends) <= known.high, unit


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("HR", "hr"), ("Heart Rate", "hr"), ("heart_rate", "hr"), ("o2sat", "sao2"),
        ("SpO2", "sao2"), ("PaCO2", "paco2"), ("Troponin-I", "troponini"),
    ],
)  # fmt: skip
def test_names_are_read_in_any_spelling(code, name):
    assert range_of(code) is RANGES[name]


@pytest.mark.parametrize("code", ["", "220045", "LAB//50912", "hrv", "Größe"])
def test_other_codes_have_no_range(code):
    assert range_of(code) is None


def test_every_alias_stands_for_a_range_and_hides_none():
    assert set(_ALIASES.values()) <= RANGES.keys()
    assert not _ALIASES.keys() & RANGES.keys()
