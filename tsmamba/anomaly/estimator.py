"""`MambaDetector`: a scikit-learn outlier detector over the rows of a time series."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsmamba.anomaly.adapters import PyodDetector
from tsmamba.anomaly.batch import Batch, score_offline, score_streaming
from tsmamba.anomaly.calibration import Calibration, Drift
from tsmamba.anomaly.defaults import (
    MODES,
    PRESETS,
    calibration_for,
    check_choice,
    check_corrector,
    check_delay,
    check_memory,
    check_rows,
    drift_for,
)
from tsmamba.anomaly.episodes import EpisodeRule, episode_frame, episodes_of, rule_for
from tsmamba.anomaly.fitting import fit_model
from tsmamba.anomaly.model import DetectorModel, PatchModel
from tsmamba.anomaly.pace import Pace
from tsmamba.anomaly.plot import plot_scores
from tsmamba.anomaly.rows import Rows, numbers, read_rows
from tsmamba.anomaly.saved import load_detector, save_detector
from tsmamba.anomaly.stream import Stream
from tsmamba.callbacks import observed
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.errors import FrameError, ParameterError

_LEAST_ROWS = {"auto": 16, "alerts": 16, "tiny": 2}


class MambaDetector(OutlierMixin, BaseEstimator):
    """Anomalies in the rows of a long series, one channel or many.

    A row is compared, as the end or the middle of patches of several widths, with a bounded memory
    of patches seen before, and with what an autoregression expected of it. Fitting takes seconds.
    Fit it on rows that are mostly normal; single anomalies among them do little harm, since a patch
    is never compared with itself.

    Use it on series of thousands of rows with a period or a typical shape: sensors, servers,
    telemetry, biosignals. Not on tables whose rows have no order, where
    `sklearn.ensemble.IsolationForest` fits better.

    Parameters
    ----------
    preset : {"auto", "alerts", "tiny"}, default "auto"
        "auto" chooses windows by the data. "alerts" learns from every row, goes on where the fit
        ended and tells when something rare begins, not how long it lasts; it is always streaming,
        and `period` and `memory_size` have no say. "tiny" judges every row by itself and needs no
        order of rows: for tables and for tests.
    mode : {"offline", "streaming"}, default "offline"
        How the methods of this class score. "offline" looks at what comes before and after a row,
        which is more accurate, and compares it with the rest of the same `X`, too. "streaming"
        gives the numbers of a new `stream`, which only looks back.
    delay : int or {"p/4", "p/2", "p"}, default 0
        Of streams: rows to wait before a row is scored, as a number or as part of the width of a
        patch, about a period. Later scores are better. 0 with "tiny".
    contamination : "auto" or float in (0, 0.5], default "auto"
        Share of the rows of the fit that lie above the threshold; "auto" leaves it to
        `calibration`.
    calibration : {"quantile", "spot", "dspot", "conformal", "rate"} or Calibration, optional
        How the threshold is found; by default "quantile", which one stretch of normal rows as long
        as those of the fit is expected to reach once.
    drift : Drift, optional
        When a stream takes a change of level as the new normal.
    period : int >= 1, optional
        Period in rows; found by default.
    memory_size : int >= 16, default 1500
        Most patches to remember; more are slower and not better.
    corrector : {"mamba", None}, default None
        Whether a small Mamba, trained in the fit, foretells what the autoregression leaves over.
        It is kept only as far as it does on held-out rows, see `correction_`, and needs some 700
        rows. See the notes before using it.
    random_state : int, optional
        Seed of the corrector.
    time_col : str, default "ds"
        Column of a frame that holds times. A gap in them is as many missing rows.
    id_col : str, default "unique_id"
        Column of a frame that names its series, one only; it is no channel.

    Attributes
    ----------
    offset_ : float
        ``decision_function(X) == score_samples(X) - offset_``.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : ndarray of str
        Their names, where `X` of the fit was a frame.
    plan_ : Plan
        Period, widths and delay in use, in rows.
    correction_ : float
        Part of what the corrector foretells that is used, 0 to 1; 0 where there is none.

    See Also
    --------
    tsmamba.metrics : Measures of detection that cannot be gamed.

    Notes
    -----
    Patch distances with half normalisation, fused as root mean square of standardised excesses, are
    described with their measurements in docs/anomaly.md. No trained network is in the default: on
    the files measured there, none added to these scores beyond noise, ``corrector="mamba"`` among
    them.

    Examples
    --------
    >>> import numpy as np
    >>> from tsmamba import MambaDetector
    >>> x = np.sin(np.arange(2_000) / 8)[:, None]
    >>> x[1_500:1_510] = 0.0
    >>> detector = MambaDetector().fit(x[:1_000])
    >>> scores = detector.anomaly_score(x)
    >>> bool(1_450 < scores.argmax() < 1_560), bool(scores.max() > 1)
    (True, True)
    """

    def __init__(
        self,
        preset: str = "auto",
        *,
        mode: str = "offline",
        delay: int | str = 0,
        contamination: str | float = "auto",
        calibration: str | Calibration[Any] | None = None,
        drift: Drift | None = None,
        period: int | None = None,
        memory_size: int = 1_500,
        corrector: str | None = None,
        random_state: int | None = None,
        time_col: str = "ds",
        id_col: str = "unique_id",
    ) -> None:
        self.preset = preset
        self.mode = mode
        self.delay = delay
        self.contamination = contamination
        self.calibration = calibration
        self.drift = drift
        self.period = period
        self.memory_size = memory_size
        self.corrector = corrector
        self.random_state = random_state
        self.time_col = time_col
        self.id_col = id_col

    @observed
    def fit(self, X: Any, y: None = None) -> Self:
        """Learn what is normal.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels), or polars, pandas or pyarrow frame
            Rows in the order of time, mostly normal; NaN where missing. 16 rows at least; a patch
            is at most a third of them.
        y : None
            Ignored.

        Returns
        -------
        MambaDetector
            This one.

        Raises
        ------
        ParameterError, FrameError
            If parameters or rows cannot be used; the detector is then as before.
        """
        self._check_parameters()
        rows = read_rows(X, self.time_col, self.id_col)
        least = _LEAST_ROWS[self.preset]
        if len(rows.values) < least:
            raise ParameterError(
                f"n_samples={len(rows.values)}: fit needs at least {least} rows; pass a longer "
                "series"
            )
        pace = None
        if rows.times is not None:
            pace = Pace.of(numbers(rows.times), not rows.times.dtype.is_integer())
        if np.isnan(rows.values).all():
            raise ParameterError(
                f"X holds no value: all {rows.values.size} are missing; pass rows with values"
            )
        values, _ = _on_grid(rows, pace)
        self._set_fitted(fit_model(self, values, pace), rows.names, pace)
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Score rows the way of scikit-learn: lower is worse.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            Rows in the order of time; NaN where missing.

        Returns
        -------
        ndarray of shape (n_rows,)
            NaN where a row has no score, see `anomaly_score`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ParameterError, FrameError
            If the rows do not fit the channels.
        """
        scores: np.ndarray = -self._score(X).raw
        return scores

    def decision_function(self, X: Any) -> np.ndarray:
        """Score rows so that those below 0 are anomalies.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Tell anomalies from other rows, by the threshold of the fit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,), int
            -1 for anomalies, 1 for others and for rows without a score.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def anomaly_score(self, X: Any) -> np.ndarray:
        """Score rows the clear way: higher is worse, 1.0 is the alert threshold.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,)
            NaN where a row has no score: where most of what is around it is missing, and in
            streaming mode in warm-up, where all channels are missing, and, with a delay, at the
            end. Thresholds that adapt do so from row to row.
        """
        return self._score(X).scores

    def p_value(self, X: Any) -> np.ndarray:
        """Tell how usual such a score would be among normal rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows,)
            In (0, 1]; NaN where a row has no score.
        """
        return self._score(X).p_values

    def explain(self, X: Any) -> np.ndarray:
        """Share the anomaly score of each row among the channels.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.

        Returns
        -------
        ndarray of shape (n_rows, n_channels)
            Each row adds up to its `anomaly_score`.
        """
        return self._score(X).contributions

    def episodes(self, X: Any, rule: EpisodeRule | None = None) -> Any:
        """List the alerts, merged into episodes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.
        rule : EpisodeRule, optional
            When an episode opens and closes.

        Returns
        -------
        frame
            Of the kind of `X`, polars for an array: columns id, start, end, peak_time, peak,
            n_steps and channels. Times are row numbers where `X` has none.
        """
        rule = rule_for(rule)
        rows = self._rows(X)
        frame = self._episodes(rows, self._score_rows(rows), rule)
        return frame if rows.names is None else to_native(frame, frame_kind(X))

    def plot(self, X: Any, *, path: str | Path | None = None) -> Any:
        """Draw channels, scores and episodes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels) or frame
            As for `score_samples`.
        path : str or path, optional
            File to write.

        Returns
        -------
        matplotlib.figure.Figure
        """
        rows = self._rows(X)
        scored = self._score_rows(rows)
        return plot_scores(rows, scored, self._episodes(rows, scored, EpisodeRule()), path)

    def stream(self, key: str | None = None, *, max_keys: int = 10_000) -> Stream:
        """Score rows as they come.

        Parameters
        ----------
        key : str, optional
            Name of the series that rows without a key belong to.
        max_keys : int >= 1
            Series to keep at most; the one not used for longest goes first.

        Returns
        -------
        Stream
            With an empty past, so that its first rows are warm-up; see `Stream.seed`. With
            ``preset="alerts"`` it goes on where the fit ended.
        """
        check_is_fitted(self)
        check_rows("max_keys", max_keys, 1)
        return Stream(
            self._model,
            drift=drift_for(self.drift),
            names=getattr(self, "feature_names_in_", None),
            pace=self._pace,
            key=key,
            max_keys=max_keys,
            time_col=self.time_col,
            id_col=self.id_col,
        )

    def as_pyod(self) -> PyodDetector:
        """Return a view in the manner of PyOD: labels 0 and 1, higher scores are worse.

        Returns
        -------
        PyodDetector
        """
        return PyodDetector(self)

    def save(self, path: str | Path) -> None:
        """Write the fitted detector to a file, without pickle.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        ModelFileError
            If it cannot be written.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        save_detector(path, self, self._model, names, self._pace)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a detector that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        MambaDetector
            It scores as the saved one did, bit for bit.

        Raises
        ------
        ModelFileError
            If the file is damaged, altered or of another class or version.
        """
        parameters, model, names, pace = load_detector(path)
        detector = cls(**parameters)
        detector._set_fitted(model, names, pace)
        return detector

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense."""
        check_choice("preset", self.preset, PRESETS)
        check_choice("mode", self.mode, MODES)
        check_delay(self.delay, self.preset)
        check_memory(self.memory_size)
        check_corrector(self.corrector, self.preset)
        if self.random_state is not None:
            check_rows("random_state", self.random_state, 0)
        if self.period is not None:
            check_rows("period", self.period, 1)
        drift_for(self.drift)
        calibration_for(self.calibration, self.contamination)

    def _set_fitted(self, model: DetectorModel, names: list[str] | None, pace: Pace | None) -> None:
        self._model = model
        self._pace = pace
        self.plan_ = model.causal.plan
        corrector = model.causal.corrector if isinstance(model, PatchModel) else None
        self.correction_ = corrector.gate if corrector else 0.0
        self.n_features_in_ = len(model.units.mean)
        if names is None:
            self.__dict__.pop("feature_names_in_", None)
        else:
            self.feature_names_in_ = np.array(names, dtype=object)
        # As everywhere in scikit-learn, another mode needs another fit.
        offline = model if isinstance(model, PatchModel) and self.mode == "offline" else None
        calibrator = offline.offline_calibrator if offline else model.causal_calibrator
        threshold = float(calibrator.copy().step(np.zeros(1))[0][0])
        self._offline = offline
        self.offset_ = -threshold
        self._usual = calibrator.law.quantile(0.5) / threshold

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        rows = read_rows(X, self.time_col, self.id_col, names)
        if rows.values.shape[1] != self.n_features_in_:
            raise ParameterError(
                f"X has {rows.values.shape[1]} features, but MambaDetector is expecting "
                f"{self.n_features_in_} features as input"
            )
        return rows

    def _score(self, X: Any) -> Batch:
        return self._score_rows(self._rows(X))

    def _score_rows(self, rows: Rows) -> Batch:
        values, places = _on_grid(rows, self._pace)
        if self._offline:
            return score_offline(self._offline, values).at(places)
        return score_streaming(self._model, values, drift_for(self.drift)).at(places)

    def _episodes(self, rows: Rows, scored: Batch, rule: EpisodeRule) -> pl.DataFrame:
        names = rows.names or [str(i) for i in range(self.n_features_in_)]
        found = episodes_of(
            scored.scores,
            None if rows.times is None else rows.times.to_list(),
            clone(rule).set_params(close_at=rule.closing(self._usual)),
            contributions=[dict(zip(names, row, strict=True)) for row in scored.contributions],
        )
        times = rows.times
        return episode_frame(found, pl.Int64 if times is None else times.dtype)


def _on_grid(rows: Rows, pace: Pace | None) -> tuple[np.ndarray, np.ndarray]:
    """Put rows where their times say; return them and their places."""
    if rows.times is None or pace is None:
        return rows.values, np.arange(len(rows.values))
    if pace.stamps == rows.times.dtype.is_integer():
        kind = "dates or stamps" if pace.stamps else "integers"
        raise FrameError(
            f"column {rows.times.name!r} is {rows.times.dtype}, but the detector was fitted on "
            f"{kind} as times; pass such times"
        )
    places = pace.places(numbers(rows.times))
    values = np.full((places[-1] + 1, rows.values.shape[1]), np.nan)
    values[places] = rows.values
    return values, places
