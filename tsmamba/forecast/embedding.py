"""`embed` of a forecaster: a vector for each series, by which series can be compared."""

from typing import Any

import polars as pl
import torch
from torch import Tensor

from tsmamba.data.frame import frame_kind, to_native
from tsmamba.data.windows import Windows
from tsmamba.forecast.frames import FrameReader
from tsmamba.forecast.network import Corrector
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba.forecast.source import Source

# Steps of a batch, padding included.
_BATCH_STEPS = 2**20


class Embeddings(FrameReader):
    """A forecaster that tells how series behave, by what its network makes of them."""

    def embed(self, df: Any) -> Any:
        """Give one vector for each series, to cluster, compare or look up series by.

        The network of the fit reads each series from its first step to its last, in patches, and
        the vector is the mean, the maximum and the minimum over these of the last layer's outputs.
        Where the fit uses no correction, as in ``mode="base"``, it is the network that comes with
        the package. Nothing is fitted.

        Each series is standardised by its own mean and scale, so vectors know the shape of a
        series and not its level or unit; where these matter, put them beside the vectors. The
        longer a series is, the further its extremes lie apart: compare series of like length.

        Parameters
        ----------
        df : frame
            Series, those of the fit or others, with all columns of the fit. Gaps are filled from
            the past, and a patch without any value is left out.

        Returns
        -------
        frame of the type that came in
            A row for each series in order of appearance: the id, "target" for wide frames, and
            float32 columns e0, e1, ..., three times as many as the network is wide.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from tsmamba import MambaForecaster
        >>> t = np.arange(960)
        >>> waves = pl.DataFrame({"ds": t, "y": np.sin(t / 4)})
        >>> forecaster = MambaForecaster(horizon=24, mode="base").fit(waves)
        >>> steps = waves.with_columns(y=pl.col("y").sign())
        >>> vectors = forecaster.embed(steps)
        >>> vectors.shape, vectors.columns[:2]
        ((1, 96), ['e0', 'e1'])
        """
        self._check_of_series("embed")
        inputs, fitted = self._inputs(), self._fitted
        # By its own scale, for that of the fit would make the vector one of the level, too.
        panel = inputs.panel(df, self.freq_)
        covariates, _ = inputs.covariates(df, panel, fitted.encoding)
        model = fitted.model
        source = Source.of(panel, self.season_length_, model.cycles, covariates, model.effects)
        corrector = pretrained_corrector() if model.corrector is None else model.corrector
        vectors = embed_series(corrector, source)
        names = [f"e{number}" for number in range(vectors.shape[1])]
        frame = pl.DataFrame(vectors.numpy(), schema=names, orient="row")
        if panel.columns.wide:
            frame.insert_column(0, pl.Series("target", panel.targets))
        if panel.columns.id_given:
            frame.insert_column(0, panel.ids.alias(panel.columns.id_col))
        return to_native(frame, frame_kind(df))


@torch.no_grad()
def embed_series(corrector: Corrector, source: Source) -> Tensor:
    """Return a vector for each series.

    Parameters
    ----------
    corrector : Corrector
        The network, in evaluation mode.
    source : Source
        The series, standardised.

    Returns
    -------
    Tensor of shape (S, 3 * d_model)
        Mean, maximum and minimum of the outputs over the patches of a series. Patches end at its
        last step; in the first one its first value is repeated.
    """
    store, patch = source.store, corrector.config.patch
    every = store.last()
    tokens = (store.elapsed(every) + patch - 1) // patch
    out = torch.empty(len(every), 3 * corrector.config.d_model)
    for picked in _batches(tokens * patch):
        windows, longest = every.select(picked), int(tokens[picked[0]])
        out[picked] = _pooled(*_encoded(corrector, source, windows, longest))
    return out


def _batches(steps: Tensor) -> list[Tensor]:
    """Return the numbers of all series in batches, from the longest to the shortest."""
    order = steps.argsort(descending=True)
    batches = []
    while len(order):
        count = max(1, _BATCH_STEPS // int(steps[order[0]]))
        batches.append(order[:count])
        order = order[count:]
    return batches


def _encoded(
    corrector: Corrector, source: Source, windows: Windows, tokens: int
) -> tuple[Tensor, Tensor]:
    """Return the outputs at the last so many patches of each series, and which hold a value."""
    config = corrector.config
    length = tokens * config.patch
    context = torch.empty(len(windows), tokens, 0)
    if config.n_context:
        context = source.context(windows, tokens, 0, config.patch)
    return corrector.encode(
        source.store.history(windows, length),
        source.store.history_observed(windows, length),
        context,
        source.gaps(windows, tokens, 0, config.patch),
    )


def _pooled(encoded: Tensor, seen: Tensor) -> Tensor:
    """Return mean, maximum and minimum over the tokens that were seen, (n, 3 D)."""
    hidden = ~seen.unsqueeze(-1)
    mean = encoded.masked_fill(hidden, 0.0).sum(1) / seen.sum(1, keepdim=True)
    most = encoded.masked_fill(hidden, -torch.inf).amax(1)
    least = encoded.masked_fill(hidden, torch.inf).amin(1)
    return torch.cat([mean, most, least], dim=1)
