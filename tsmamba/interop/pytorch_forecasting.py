"""A Mamba network as a model of pytorch-forecasting."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba._optional import require
from tsmamba.errors import HorizonError, ParameterError
from tsmamba.nn import MambaStack

# A class needs its base when it is defined, so the extra is needed to import this module.
_library: Any = require("pytorch_forecasting", extra="pytorch-forecasting")
_Model: Any = _library.BaseModelWithCovariates


class MambaForecastNet(_Model):
    """Causal Mamba network with covariates, for the data sets and losses of pytorch-forecasting.

    Use it where a project already has a ``TimeSeriesDataSet``; build it with `from_dataset`. A
    token for each step of history, then one for each step of the forecast, run through a causal
    stack, so a step of the forecast sees the known future only up to itself. The stack corrects a
    linear forecast from the target's last window. Scaling is the job of the data set's normaliser.

    Parameters
    ----------
    hidden_size, n_layers, d_state : int, default 32, 2 and 16
        Width, depth and states of the `tsmamba.nn.MambaStack`.
    dropout : float in [0, 1), default 0.1
        Rate of dropout in it.
    output_size : int
        Outputs of a step: quantiles or parameters of the distribution; 1 for a point forecast.
    loss : pytorch_forecasting metric
        What is minimised; `from_dataset` takes ``QuantileLoss()`` by default.
    static_categoricals, static_reals : list of str
        Names of static variables.
    time_varying_categoricals_encoder, time_varying_categoricals_decoder : list of str
        Names of categorical variables of history and of forecast.
    time_varying_reals_encoder, time_varying_reals_decoder : list of str
        Names of real variables of history, the target among them, and of forecast.
    categorical_groups : dict of str to list of str
        Variables that share one bag of embeddings, by its name.
    embedding_sizes : dict of str to (int, int)
        Number of categories and width of each embedding.
    embedding_paddings : list of str
        Categorical variables whose category 0 is unknown and embedded as zeros.
    embedding_labels : dict of str to labels
        Names of the categories, for plots.
    x_reals, x_categoricals : list of str
        Order of the variables in a batch.
    **kwargs
        Arguments of every pytorch-forecasting model, ``learning_rate``, ``optimizer`` and
        ``logging_metrics`` among them; ``dataset_parameters`` must be there, for the lengths.

    Notes
    -----
    Checkpoints are pytorch-forecasting's own and contain pickles: load only those that you trust.

    Examples
    --------
    >>> import pandas as pd
    >>> from pytorch_forecasting import TimeSeriesDataSet
    >>> frame = pd.DataFrame({"t": range(40), "y": [t % 4 for t in range(40)], "id": "a"})
    >>> dataset = TimeSeriesDataSet(
    ...     frame.astype({"y": "float32"}),
    ...     time_idx="t",
    ...     target="y",
    ...     group_ids=["id"],
    ...     max_encoder_length=16,
    ...     max_prediction_length=4,
    ...     time_varying_unknown_reals=["y"],
    ... )
    >>> model = MambaForecastNet.from_dataset(dataset)
    >>> x, y = next(iter(dataset.to_dataloader(batch_size=8)))
    >>> model(x).prediction.shape  # batch, steps, quantiles
    torch.Size([8, 4, 7])
    """

    def __init__(
        self,
        hidden_size: int = 32,
        n_layers: int = 2,
        d_state: int = 16,
        dropout: float = 0.1,
        *,
        output_size: int,
        loss: Any,
        static_categoricals: list[str],
        static_reals: list[str],
        time_varying_categoricals_encoder: list[str],
        time_varying_categoricals_decoder: list[str],
        time_varying_reals_encoder: list[str],
        time_varying_reals_decoder: list[str],
        categorical_groups: dict[str, list[str]],
        embedding_sizes: dict[str, tuple[int, int]],
        embedding_paddings: list[str],
        embedding_labels: dict[str, Any],
        x_reals: list[str],
        x_categoricals: list[str],
        **kwargs: Any,
    ) -> None:
        self.save_hyperparameters(ignore=["loss"])
        super().__init__(loss=loss, **kwargs)
        self.embeddings = _library.MultiEmbedding(
            embedding_sizes=embedding_sizes,
            embedding_paddings=embedding_paddings,
            categorical_groups=categorical_groups,
            x_categoricals=x_categoricals,
        )
        widths = self.embeddings.output_size
        n_history, n_forecast = (
            sum(widths.get(name, 1) for name in variables + self.static_variables)
            for variables in (self.encoder_variables, self.decoder_variables)
        )
        window = self.dataset_parameters["max_encoder_length"]
        horizon = self.dataset_parameters["max_prediction_length"]
        self.linear = nn.Linear(window, horizon, bias=False)
        self.embed_history = nn.Linear(n_history, hidden_size)
        self.embed_forecast = nn.Linear(1 + n_forecast, hidden_size)
        # History needs no positions: the scan counts by itself.
        self.position = nn.Parameter(0.02 * torch.randn(horizon, hidden_size))
        self.stack = MambaStack(hidden_size, n_layers, d_state, dropout=dropout)
        self.head = nn.Linear(hidden_size, output_size)
        # Quantiles are all in the target's units, but of a distribution only its first parameter.
        is_location = torch.ones(output_size)
        if isinstance(self.loss, _library.DistributionLoss):
            is_location[1:] = 0.0
        self.register_buffer("is_location", is_location, persistent=False)

    @classmethod
    def from_dataset(cls, dataset: Any, **kwargs: Any) -> "MambaForecastNet":
        """Build the network for a data set.

        Parameters
        ----------
        dataset : pytorch_forecasting.TimeSeriesDataSet
            Names, sizes, lengths and the normaliser of the target are taken from it.
        **kwargs
            Arguments of the constructor, which go first.

        Returns
        -------
        MambaForecastNet
            An untrained model.

        Raises
        ------
        ParameterError
            If there is more than one target, the target is no real variable of the history, or
            there are monotone constraints.

        Examples
        --------
        See `MambaForecastNet`.
        """
        kwargs.setdefault("loss", _library.QuantileLoss())
        _check_target(dataset, kwargs["loss"])
        if kwargs.get("monotone_constraints"):
            raise ParameterError(
                f"monotone_constraints={kwargs['monotone_constraints']!r} need second derivatives, "
                "which the kernels of Mamba have not; leave them out"
            )
        kwargs.update(cls.deduce_default_output_parameters(dataset, kwargs))
        network: MambaForecastNet = super().from_dataset(dataset, **kwargs)
        return network

    def forward(self, x: dict[str, Tensor]) -> Any:
        """Forecast a batch.

        Parameters
        ----------
        x : dict of str to Tensor
            Batch of a ``TimeSeriesDataSet``'s loader.

        Returns
        -------
        named tuple
            With ``prediction``, of shape (B, H, output_size), in the units of the target.

        Raises
        ------
        HorizonError
            If the batch asks for more steps than the network was built for.
        """
        horizon = x["decoder_cont"].shape[1]
        if horizon > self.linear.out_features:
            raise HorizonError(
                f"the batch asks for {horizon} steps, but the network was built for at most "
                f"{self.linear.out_features}; build it from a data set with "
                f"max_prediction_length={horizon}"
            )
        reals, seen = _right_aligned(x["encoder_cont"], x["encoder_lengths"])
        categories, _ = _right_aligned(x["encoder_cat"], x["encoder_lengths"])
        x = {**x, "encoder_cont": reals, "encoder_cat": categories}

        base = self._linear_forecast(reals[..., self.target_positions].squeeze(-1), seen)
        base = base[:, :horizon].unsqueeze(-1)  # (B, H, 1)
        past = self.embed_history(self._variables(x, "encoder", self.encoder_variables))
        known = self._variables(x, "decoder", self.decoder_variables)
        ahead = self.embed_forecast(torch.cat([base, known], dim=-1)) + self.position[:horizon]
        # Steps behind a shorter forecast need no mask: nothing before them sees them.
        mask = F.pad(seen, (0, horizon), value=True)
        encoded = self.stack(torch.cat([past, ahead], dim=1), mask=mask)
        output = base * self.is_location + self.head(encoded[:, -horizon:])
        prediction = self.transform_output(output, target_scale=x["target_scale"])
        return self.to_network_output(prediction=prediction)

    def _linear_forecast(self, target: Tensor, seen: Tensor) -> Tensor:
        """Return the window's level plus a linear map of what differs from it, shape (B, H)."""
        # A negative width crops, where a batch has more history than the network was built for.
        missing = self.linear.in_features - target.shape[1]
        target, seen = F.pad(target, (missing, 0)), F.pad(seen, (missing, 0))
        level = (target * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1)
        out: Tensor = level + self.linear((target - level) * seen)
        return out

    def _variables(self, x: dict[str, Tensor], period: str, names: list[str]) -> Tensor:
        """Return the named variables of a period and the static ones, shape (B, L, width)."""
        found = self.extract_features(x, self.embeddings, period=period)
        # The empty part keeps shape and type where there are no names.
        parts = [found[name] for name in names + self.static_variables]
        return torch.cat([x[f"{period}_cont"][..., :0], *parts], dim=-1)


def _check_target(dataset: Any, loss: Any) -> None:
    targets = dataset.target_names
    if len(targets) > 1 or isinstance(loss, _library.MultiLoss):
        raise ParameterError(
            f"MambaForecastNet forecasts one target with one loss, not {targets} with "
            f"{type(loss).__name__}; build a data set and a network for each target, or put the "
            "targets below each other as series of their own"
        )
    if targets[0] not in dataset.reals:
        raise ParameterError(
            f"the target {targets[0]!r} is not among the real variables of the data set, so its "
            f"past would not be seen; pass time_varying_unknown_reals=[{targets[0]!r}] to "
            "TimeSeriesDataSet, and numbers, not categories, as the target"
        )


def _right_aligned(values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Move padding from the end of (B, L, C) to the start; also return where the real steps are.

    At the end it would lie between history and forecast, and the stack's convolution would see how
    long it is: a forecast would depend on the other series of its batch.
    """
    length = values.shape[1]
    source = torch.arange(length, device=values.device) - (length - lengths).unsqueeze(1)  # (B, L)
    index = source.clamp(min=0).unsqueeze(-1).expand_as(values)
    return values.gather(1, index), source >= 0
