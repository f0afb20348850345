"""Files that a command writes beside what it shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

PANEL = "Output"

Plot = Annotated[Path | None, typer.Option(help="File for a picture.", rich_help_panel=PANEL)]


@dataclass(frozen=True)
class Outputs:
    """What to write.

    Parameters
    ----------
    out, plot, save : Path, optional
        Files for the table, the picture and the fitted estimator.

    Examples
    --------
    >>> Outputs(out=Path("-")).on_stdout
    True
    """

    out: Path | None = None
    plot: Path | None = None
    save: Path | None = None

    @property
    def on_stdout(self) -> bool:
        """Whether the table itself goes to stdout."""
        return self.out == Path("-")

    def check(self) -> None:
        """Refuse what could not be written, before any work."""
        from tsmamba._optional import require
        from tsmamba.cli.tables import check_folder, check_writable

        if self.out is not None:
            check_writable(self.out)
        for path in (self.plot, self.save):
            if path is not None:
                check_folder(path)
        if self.plot is not None:
            require("matplotlib", "plot")

    def places(self, table: str) -> dict[str, str]:
        """Say where the files are, the table by its name; nothing of what went to stdout."""
        paths = {table: self.out, "plot": self.plot, "model": self.save}
        return {
            f"{name} in": str(path)
            for name, path in paths.items()
            if path is not None and path != Path("-")
        }
