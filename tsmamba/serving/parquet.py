"""Folders of parquet files, scored part by part, each written whole or not at all.

A part is one file, and holds whole series. Its answer says in its metadata what it was made from,
so that a run which was cut short goes on where it stopped, and a new model or new rows are seen.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import polars as pl

from tsmamba import __version__
from tsmamba._files import write_whole
from tsmamba.errors import FrameError, ParameterError
from tsmamba.serving.frames import score_frame
from tsmamba.serving.loading import load_any

_MADE_FROM = "tsmamba.made_from"


@dataclass(frozen=True)
class Job:
    """What to score, with what, and where the answers go.

    Parameters
    ----------
    source : Path
        Folder of parquet files, of any depth; ``key=value`` in the path of a file is a column.
    target : Path
        Folder of the answers, which keep the names of their parts.
    model : Path
        File of a saved model.
    horizon, quantiles
        As in `score_frame`.

    Examples
    --------
    >>> Job(Path("sent"), Path("scored"), Path("pumps.tsm"), horizon=24).horizon
    24
    """

    source: Path
    target: Path
    model: Path
    horizon: int | None = None
    quantiles: tuple[float, ...] | None = None

    def parts(self) -> list[str]:
        """Return the files, relative to the source and in order; hidden ones are left out.

        Raises
        ------
        ParameterError
            If there are none, or answers would lie among them.
        """
        source, target = self.source.resolve(), self.target.resolve()
        if not source.is_dir():
            raise ParameterError(f"there is no folder {str(self.source)!r}; give one that exists")
        if target.is_relative_to(source):
            raise ParameterError(
                f"the answers in {str(self.target)!r} would lie among the parts in "
                f"{str(self.source)!r} and be read as such; give a folder outside of it"
            )
        every = sorted(path.relative_to(source) for path in source.rglob("*.parquet"))
        parts = [str(path) for path in every if not any(name[0] in "._" for name in path.parts)]
        if not parts:
            raise ParameterError(
                f"{str(self.source)!r} holds no file whose name ends with .parquet"
            )
        return parts


class Outcome(NamedTuple):
    """What became of a part."""

    part: str
    state: str  # "scored", "kept" from an earlier run, "empty" or "failed"
    rows: int = 0  # of the answer, if it was scored
    reason: str = ""  # why it failed

    @classmethod
    def lost(cls, part: str) -> "Outcome":
        """Return what became of a part whose process ended."""
        return cls(part, "failed", reason="its process ended; is there enough memory?")


class Scorer:
    """Scores the parts of a job in one process, which loads the model once.

    Parameters
    ----------
    job : Job
        The job.

    Raises
    ------
    ModelFileError
        If the model cannot be loaded.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.model = load_any(job.model)
        self._settings = [
            __version__,
            hashlib.sha256(job.model.read_bytes()).hexdigest(),
            job.horizon,
            job.quantiles,
        ]

    def score(self, part: str) -> Outcome:
        """Score one part and write its answer, if it is not there already."""
        source, target = self._job.source / part, self._job.target / part
        try:
            made_from = self._made_from(source)
            if _made_before(target) == made_from:
                return Outcome(part, "kept")
            rows = read_part(self._job.source, part, self.model)
            if rows.is_empty():
                return Outcome(part, "empty")
            horizon, quantiles = self._job.horizon, self._job.quantiles
            answer = score_frame(self.model, rows, horizon=horizon, quantiles=quantiles)
            file = io.BytesIO()
            answer.write_parquet(file, metadata={_MADE_FROM: made_from})
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, file.getvalue())
        except Exception as error:  # whatever is wrong with one part, the others are scored
            reason = str(error).strip().partition("\n")[0]
            return Outcome(part, "failed", reason=reason or type(error).__name__)
        return Outcome(part, "scored", answer.height)

    def _made_from(self, source: Path) -> str:
        """Return a check sum of all that an answer depends on."""
        with source.open("rb") as file:
            rows = hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(json.dumps([*self._settings, rows]).encode()).hexdigest()

    def check_whole(self, parts: Sequence[str]) -> None:
        """Refuse series that are cut over two parts: each piece would be scored as a series.

        Parts that cannot be read are left for later. Models of rows without ids take a part for
        one series.

        Parameters
        ----------
        parts : sequence of str
            All parts.

        Raises
        ------
        FrameError
            Naming a series and two parts of it.
        """
        id_col = getattr(self.model, "id_col", None)
        owners: dict[str, str] = {}
        for part in parts:
            for series in _ids(self._job.source, part, id_col):
                other = owners.setdefault(series, part)
                if other != part:
                    raise FrameError(
                        f"series {series!r} is in {other!r} and in {part!r}, and a file must hold "
                        f"whole series; write them anew, sorted by {id_col!r} and cut between "
                        "series"
                    )


def read_part(source: Path, part: str, model: Any) -> pl.DataFrame:
    """Read a part, with the columns that its path holds.

    Parameters
    ----------
    source : Path
        The folder of all parts.
    part : str
        The file, relative to it.
    model : MambaForecaster, MambaDetector or LogDetector
        Which type a column should have.

    Returns
    -------
    polars.DataFrame
        Its rows.
    """
    rows = pl.read_parquet(source / part, hive_partitioning=False)
    types = getattr(model, "input_schema_", {})
    return rows.with_columns(
        pl.lit(text, dtype=pl.String).cast(types.get(name, pl.String)).alias(name)
        for name, text in _in_path(part).items()
        if name not in rows.columns
    )


def _in_path(part: str) -> dict[str, str]:
    """Return the columns of a path such as ``region=north/0.parquet``; ids stay text."""
    pairs = (name.partition("=") for name in Path(part).parts[:-1] if "=" in name)
    return {unquote(name): unquote(text) for name, _, text in pairs}


def _ids(source: Path, part: str, id_col: str | None) -> Iterator[str]:
    try:
        columns = pl.read_parquet_schema(source / part)
        if id_col in columns:
            ids = pl.read_parquet(source / part, columns=[id_col], hive_partitioning=False)
            yield from ids.to_series().cast(pl.String).drop_nulls().unique()
        elif id_col in _in_path(part):
            yield _in_path(part)[id_col]
    except (pl.exceptions.PolarsError, OSError):
        return


def _made_before(target: Path) -> str | None:
    """Return what an answer says of itself; nothing if there is none or it is damaged."""
    try:
        return pl.read_parquet_metadata(target).get(_MADE_FROM)
    except (pl.exceptions.PolarsError, OSError):
        return None
