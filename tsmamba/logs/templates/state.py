"""The state of a miner as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsmamba.errors import ModelFileError
from tsmamba.logs.templates.events import TemplateEvent
from tsmamba.logs.templates.tree import Template

__all__ = ["MinerState", "read_state", "write_state"]

_VERSION = 1


@dataclass(frozen=True)
class MinerState:
    """All that decides what a miner answers from now on."""

    similarity: float
    max_templates: int
    frozen: bool
    cache_size: int
    next_id: int
    clock: int
    templates: list[Template]
    aliases: list[tuple[int, int]]
    events: list[TemplateEvent]


def write_state(state: MinerState) -> dict[str, Any]:
    """Return a state as values that JSON can hold.

    Parameters
    ----------
    state : MinerState
        What to write.

    Returns
    -------
    dict
        With the version of its form.

    Examples
    --------
    >>> write_state(MinerState(0.9, 16, False, 0, 0, 0, [], [], []))["version"]
    1
    """
    return {
        "version": _VERSION,
        **vars(state),
        "templates": [[t.id, t.text, t.fixed, t.used] for t in state.templates],
        "aliases": [list(pair) for pair in state.aliases],
        "events": [list(event) for event in state.events],
    }


def read_state(written: Mapping[str, Any]) -> MinerState:
    """Return the state that was written.

    Parameters
    ----------
    written : mapping
        From `write_state`, also by way of JSON.

    Returns
    -------
    MinerState

    Raises
    ------
    ModelFileError
        If it is damaged or of another version.

    Examples
    --------
    >>> read_state(write_state(MinerState(0.9, 16, False, 0, 0, 0, [], [], []))).similarity
    0.9
    """
    version = written.get("version")
    if version != _VERSION:
        raise ModelFileError(
            f"state of a template miner of version {version!r}; this tsmamba reads {_VERSION}: "
            "use the tsmamba that wrote it, or learn anew"
        )
    try:
        return MinerState(
            similarity=float(written["similarity"]),
            max_templates=int(written["max_templates"]),
            frozen=bool(written["frozen"]),
            cache_size=int(written["cache_size"]),
            next_id=int(written["next_id"]),
            clock=int(written["clock"]),
            templates=[
                Template(int(id), tuple(text.split()), bool(fixed), int(used))
                for id, text, fixed, used in written["templates"]
            ],
            aliases=[(int(old), int(root)) for old, root in written["aliases"]],
            events=[TemplateEvent(*event) for event in written["events"]],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"state of a template miner is damaged: {error!r}") from error
