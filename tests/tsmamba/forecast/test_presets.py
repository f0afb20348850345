from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tsmamba.errors import ParameterError
from tsmamba.forecast.presets import PRESETS, get_preset

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("sensor", "energy", "logs", "ehr", "finance", "short")


def test_every_preset_is_found_by_its_name():
    assert tuple(PRESETS) == NAMES
    assert [get_preset(name).name for name in NAMES] == list(NAMES)


@pytest.mark.parametrize("name", ["finance", "short"])
def test_where_a_network_learns_nothing_the_base_stands_alone(name):
    assert get_preset(name).mode == "base"


@pytest.mark.parametrize("name", ["sensor", "energy", "logs", "ehr"])
def test_a_context_of_the_corrector_is_made_of_whole_patches(name):
    preset = get_preset(name)
    assert preset.mode == "fast"
    assert preset.context_length >= 2 * (preset.patch_length or 48)
    assert preset.context_length % (preset.patch_length or 8) == 0


def test_a_preset_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        get_preset("energy").mode = "base"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("enrgy", "; did you mean 'energy'?"),
        ("log", "; did you mean 'logs'?"),
        ("retail", ""),
        (None, ""),
        (3, ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name, hint):
    with pytest.raises(ParameterError) as error:
        get_preset(name)
    assert str(error.value) == (
        f"preset={name!r}; pass one of 'sensor', 'energy', 'logs', 'ehr', 'finance', 'short'{hint}"
    )


def row(preset):
    """Give a preset as the documentation tables it."""
    cells = (
        f"`{preset.name}`",
        f"{preset.context_length:,}" if preset.context_length else "by the data",
        preset.patch_length or "by the season",
        "yes" if preset.calendar and preset.mode != "base" else "no",
        f"`{preset.mode}`",
    )
    return f"| {' | '.join(map(str, cells))} |"


@pytest.mark.parametrize("preset", PRESETS.values(), ids=NAMES)
def test_the_documentation_says_what_the_presets_hold(preset):
    text = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    assert row(preset) in text
    assert f"| `{preset.name}` | {preset.why} | {preset.when} | {preset.when_not} |" in text
