"""Words that tell one event from another, however few or many of them share a place."""

__all__ = ["is_status"]

_STATUS = """
start starts started starting stop stopped stopping startup shutdown restart restarted
pause paused resume resumed suspended running terminated killed crashed exited aborted
fail fails failed failing failure failures succeed succeeded success successful successfully
debug info notice warn warning error errors critical fatal panic
up down on off enable enabled disable disabled
open opened close closed connect connected disconnect disconnected
accept accepted reject rejected refused deny denied allowed granted
valid invalid ok passed missed lost found missing
active inactive alive dead healthy unhealthy online offline ready available unavailable
create created delete deleted add added remove removed
begin end complete completed cancelled canceled expired timeout
login logout locked unlocked mounted unmounted true false yes no
"""
_WORDS = frozenset(_STATUS.split())
_MARKS = ".,:;!?()[]{}<>\"'"


def is_status(word: str) -> bool:
    """Return whether a word is a status: it is never merged with others at its place.

    Parameters
    ----------
    word : str
        With the marks around it, in any case.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_status("Failed,"), is_status("disk")
    (True, False)
    """
    return word.strip(_MARKS).lower() in _WORDS
