"""What the commands say beside their answer: notes, warnings and refusals, all on stderr."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

from tsmamba.errors import FrameWarning, GuidanceWarning, TsmambaError

REFUSED = 2
_OURS = (FrameWarning, GuidanceWarning)

_COLOURS = {"note": typer.colors.CYAN, "warning": typer.colors.YELLOW, "error": typer.colors.RED}


def say(kind: str, text: str) -> None:
    """Print one message on stderr, where it cannot mix with an answer on stdout.

    Parameters
    ----------
    kind : {"note", "warning", "error"}
        Its first word.
    text : str
        The rest.

    Examples
    --------
    >>> say("note", "no column 'ds': taking 'time'")
    """
    typer.secho(f"{kind}: ", fg=_COLOURS[kind], bold=True, nl=False, err=True)
    typer.echo(text, err=True)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what the library refuses or warns about into one message each.

    Only refusals are caught: an error that nobody foresaw keeps its traceback.

    Examples
    --------
    >>> with plain_errors():
    ...     pass
    """
    with warnings.catch_warnings():
        # Each repair and each piece of advice is worth a line, whatever filters are set.
        for kind in _OURS:
            warnings.simplefilter("always", kind)
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, _OURS):
                say("warning", str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        except TsmambaError as error:
            say("error", str(error))
            raise typer.Exit(REFUSED) from None
