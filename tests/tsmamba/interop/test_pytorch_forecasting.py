"""Laws of the network as a model of pytorch-forecasting, and its way through lightning."""

import pytest

# Every development install has the extra.
pytest.importorskip("pytorch_forecasting")

import numpy as np
import pandas as pd
import torch
from lightning.pytorch import Trainer
from pytorch_forecasting import (
    MAE,
    GroupNormalizer,
    MultiLoss,
    MultiNormalizer,
    NaNLabelEncoder,
    NormalDistributionLoss,
    QuantileLoss,
    TimeSeriesDataSet,
)

from tsmamba.errors import HorizonError, ParameterError
from tsmamba.interop.pytorch_forecasting import MambaForecastNet

SEASON, WINDOW, HORIZON = 12, 24, 6
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
LOSSES = [QuantileLoss, MAE, NormalDistributionLoss]

pytestmark = [
    # Of lightning about torch, which renamed a class; and its advice for large data sets.
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* does not have many workers"),
]


def sine_frame(steps: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    t = np.arange(steps)
    shops = [
        pd.DataFrame(
            {
                "t": t,
                "shop": f"shop{number}",
                "area": float(number),
                "y": 10.0 * number + np.sin(2 * np.pi * t / SEASON),
                "visitors": rng.normal(size=steps),
                "weather": rng.choice(["dry", "wet"], steps),
                "price": rng.normal(size=steps),
                "weekday": (t % 7).astype(str),
                "easter": np.where(t % 50 == 0, "easter", "-"),
                "market": np.where(t % 30 == 0, "market", "-"),
            }
        )
        for number in (1, 2, 3)
    ]
    return pd.concat(shops, ignore_index=True)


def dataset_of(frame: pd.DataFrame, **options) -> TimeSeriesDataSet:
    settings = {
        "time_idx": "t",
        "target": "y",
        "group_ids": ["shop"],
        "min_encoder_length": 4,
        "max_encoder_length": WINDOW,
        "max_prediction_length": HORIZON,
        "static_categoricals": ["shop"],
        "static_reals": ["area"],
        "time_varying_unknown_reals": ["y", "visitors"],
        "time_varying_unknown_categoricals": ["weather"],
        "time_varying_known_reals": ["price"],
        "time_varying_known_categoricals": ["weekday", "holidays"],
        "variable_groups": {"holidays": ["easter", "market"]},
        "target_normalizer": GroupNormalizer(groups=["shop"]),
    }
    return TimeSeriesDataSet(frame, **{**settings, **options})


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return sine_frame()


@pytest.fixture(scope="module")
def dataset(frame) -> TimeSeriesDataSet:
    return dataset_of(frame)


@pytest.fixture
def batch(dataset) -> dict[str, torch.Tensor]:
    """Eight windows whose history is of different lengths."""
    lengths = dataset.index["sequence_length"].to_numpy() - HORIZON
    windows = [int(np.argmax(lengths == length)) for length in (24, 4, 23, 5, 11, 24, 17, 8)]
    x, _ = dataset.to_dataloader(train=False).collate_fn([dataset[at] for at in windows])
    return x


@pytest.fixture
def network(dataset) -> MambaForecastNet:
    return MambaForecastNet.from_dataset(dataset).eval()


def forecast(network: MambaForecastNet, x: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return network(x).prediction


def changed(
    dataset: TimeSeriesDataSet, x: dict[str, torch.Tensor], period: str, name: str, start: int = 0
) -> dict[str, torch.Tensor]:
    """Return a batch in which a variable has other values from a step on."""
    if name in dataset.reals:
        key, at = f"{period}_cont", dataset.reals.index(name)
        values = x[key].clone()
        values[:, start:, at] += 1.0
    else:
        key, at = f"{period}_cat", dataset.flat_categoricals.index(name)
        values = x[key].clone()
        values[:, start:, at] = 1 - values[:, start:, at].clamp(max=1)
    return {**x, key: values}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_forecast_has_the_outputs_of_its_loss(loss, dataset, batch) -> None:
    network = MambaForecastNet.from_dataset(dataset, loss=loss()).eval()
    out = network(batch)
    # A distribution carries centre and scale of the normaliser beside its own two parameters.
    outputs = {"QuantileLoss": 7, "MAE": 1, "NormalDistributionLoss": 4}[loss.__name__]
    assert out.prediction.shape == (8, HORIZON, outputs)
    assert network.to_prediction(out).shape == (8, HORIZON)
    assert torch.isfinite(out.prediction).all()


def test_padding_is_never_read(network, batch) -> None:
    padding = torch.arange(WINDOW) >= batch["encoder_lengths"][:, None]
    x = {
        **batch,
        "encoder_cont": batch["encoder_cont"].masked_fill(padding[..., None], torch.nan),
        "encoder_cat": batch["encoder_cat"].masked_fill(padding[..., None], 1),
    }
    assert padding.any()
    assert torch.equal(forecast(network, x), forecast(network, batch))
    network(x).prediction.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in network.parameters())


def test_a_forecast_does_not_depend_on_the_rest_of_its_batch(network, batch) -> None:
    together = forecast(network, batch)
    for row, length in enumerate(batch["encoder_lengths"].tolist()):
        x = {name: value[row : row + 1] for name, value in batch.items()}
        x |= {name: x[name][:, :length] for name in ("encoder_cont", "encoder_cat")}
        torch.testing.assert_close(forecast(network, x)[0], together[row])


def test_a_series_without_history_gets_a_forecast(network, batch) -> None:
    none = {**batch, "encoder_lengths": torch.zeros(8, dtype=torch.long)}
    assert torch.isfinite(forecast(network, none)).all()
    empty = {**none, **{k: batch[k][:, :0] for k in ("encoder_cont", "encoder_cat")}}
    torch.testing.assert_close(forecast(network, empty), forecast(network, none))


STATIC = ("shop", "area")
HISTORY = ("y", "visitors", "weather")
KNOWN = ("price", "weekday", "easter", "market")


@pytest.mark.parametrize("name", [*STATIC, *HISTORY, *KNOWN])
def test_history_reaches_every_step(name: str, network, dataset, batch) -> None:
    other = forecast(network, changed(dataset, batch, "encoder", name))
    assert (other != forecast(network, batch)).any(-1).all()


@pytest.mark.parametrize("name", [*STATIC, *KNOWN])
def test_the_known_future_reaches_its_step_and_later_ones_only(
    name: str, network, dataset, batch
) -> None:
    step = 3
    other = forecast(network, changed(dataset, batch, "decoder", name, start=step))
    before = forecast(network, batch)
    assert torch.equal(other[:, :step], before[:, :step])
    assert (other[:, step:] != before[:, step:]).any(-1).all()


@pytest.mark.parametrize("name", HISTORY)
def test_the_unknown_future_is_never_read(name: str, network, dataset, batch) -> None:
    other = forecast(network, changed(dataset, batch, "decoder", name))
    assert torch.equal(other, forecast(network, batch))


@pytest.mark.parametrize("loss", LOSSES)
def test_without_correction_the_location_follows_the_level(loss, dataset, batch) -> None:
    network = MambaForecastNet.from_dataset(dataset, loss=loss()).eval()
    torch.nn.init.zeros_(network.head.weight)
    higher = forecast(network, changed(dataset, batch, "encoder", "y"))
    rise = higher - forecast(network, batch)
    if loss is NormalDistributionLoss:
        expected = torch.tensor([0.0, 0.0, 1.0, 0.0]).expand_as(rise)
    else:  # one normalised unit
        expected = batch["target_scale"][:, 1, None, None].expand_as(rise)
    torch.testing.assert_close(rise, expected, atol=1e-4, rtol=1e-4)


def test_the_linear_forecast_sees_no_more_than_its_window(frame, network) -> None:
    torch.nn.init.zeros_(network.head.weight)
    longer = dataset_of(frame, min_encoder_length=WINDOW, max_encoder_length=2 * WINDOW)
    x, _ = next(iter(longer.to_dataloader(train=False, batch_size=4)))
    before = forecast(network, x)
    for steps, same in ((WINDOW, True), (WINDOW + 1, False)):
        old = {**x, "encoder_cont": x["encoder_cont"].clone()}
        old["encoder_cont"][:, :steps] += 1.0
        assert torch.equal(forecast(network, old), before) == same


def test_a_data_set_without_covariates_is_enough(frame) -> None:
    plain = TimeSeriesDataSet(
        frame[["t", "shop", "y"]],
        time_idx="t",
        target="y",
        group_ids=["shop"],
        max_encoder_length=WINDOW,
        max_prediction_length=HORIZON,
        time_varying_unknown_reals=["y"],
    )
    x, _ = next(iter(plain.to_dataloader(train=False, batch_size=4)))
    assert forecast(MambaForecastNet.from_dataset(plain).eval(), x).shape == (4, HORIZON, 7)


@pytest.fixture(scope="module")
def loaders(frame, dataset) -> tuple:
    validation = TimeSeriesDataSet.from_dataset(
        dataset, frame, predict=True, stop_randomization=True
    )
    train = dataset.to_dataloader(batch_size=32)
    return train, validation.to_dataloader(train=False, batch_size=32)


def trained(dataset: TimeSeriesDataSet, loaders: tuple, loss) -> tuple[Trainer, list[float]]:
    """Train for a moment; return the trainer and the validation losses before and after."""
    train, validation = loaders
    network = MambaForecastNet.from_dataset(dataset, loss=loss, learning_rate=1e-2)
    trainer = Trainer(max_steps=20, num_sanity_val_steps=0, **QUIET)
    [before] = trainer.validate(network, validation, verbose=False)
    trainer.fit(network, train, validation)
    [after] = trainer.validate(network, validation, verbose=False)
    return trainer, [before["val_loss"], after["val_loss"]]


@pytest.mark.parametrize("loss", LOSSES)
def test_training_lowers_the_loss(loss, dataset, loaders) -> None:
    _, (before, after) = trained(dataset, loaders, loss())
    assert after < before - 0.2 * abs(before)


def test_a_checkpoint_gives_the_same_forecasts(frame, dataset, loaders, tmp_path) -> None:
    trainer, _ = trained(dataset, loaders, QuantileLoss([0.1, 0.5, 0.9]))
    trainer.save_checkpoint(tmp_path / "net.ckpt")
    loaded = MambaForecastNet.load_from_checkpoint(tmp_path / "net.ckpt")
    expected, given = (
        net.predict(frame, mode="quantiles", trainer_kwargs={**QUIET})
        for net in (trainer.lightning_module, loaded)
    )
    assert expected.shape == (3, HORIZON, 3)
    assert torch.equal(given, expected)


def refusal(error: type[Exception], call, *arguments, **options) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


# Of torch about pytorch-forecasting, which scales several targets in pandas' own arrays.
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_more_than_one_target_is_refused(frame, dataset) -> None:
    normalizers = MultiNormalizer([GroupNormalizer(groups=["shop"]) for _ in range(2)])
    two = dataset_of(frame, target=["y", "visitors"], target_normalizer=normalizers)
    build = MambaForecastNet.from_dataset
    assert refusal(ParameterError, build, two) == (
        "MambaForecastNet forecasts one target with one loss, not ['y', 'visitors'] with "
        "QuantileLoss; build a data set and a network for each target, or put the targets below "
        "each other as series of their own"
    )
    message = refusal(ParameterError, build, dataset, loss=MultiLoss([MAE()]))
    assert "not ['y'] with MultiLoss" in message


@pytest.mark.parametrize(
    "options",
    [
        {"time_varying_unknown_reals": ["visitors"]},
        {
            "target": "weather",
            "target_normalizer": NaNLabelEncoder(),
            "time_varying_unknown_reals": ["visitors"],
        },
    ],
    ids=["not listed", "categorical"],
)
def test_a_target_that_is_no_real_of_the_history_is_refused(options, frame) -> None:
    unseen = dataset_of(frame, **options)
    message = refusal(ParameterError, MambaForecastNet.from_dataset, unseen)
    [target] = unseen.target_names
    assert message.startswith(f"the target '{target}' is not among the real variables")
    assert f"time_varying_unknown_reals=['{target}']" in message


def test_monotone_constraints_are_refused(dataset) -> None:
    constraints = {"price": 1}
    message = refusal(
        ParameterError, MambaForecastNet.from_dataset, dataset, monotone_constraints=constraints
    )
    assert message.startswith("monotone_constraints={'price': 1} need second derivatives")


def test_a_longer_horizon_is_refused(frame, network) -> None:
    longer = dataset_of(frame, max_prediction_length=HORIZON + 1)
    x, _ = next(iter(longer.to_dataloader(train=False, batch_size=4)))
    assert refusal(HorizonError, network, x) == (
        "the batch asks for 7 steps, but the network was built for at most 6; build it from a "
        "data set with max_prediction_length=7"
    )


def test_without_the_extra_the_command_that_installs_it_is_named(run_python) -> None:
    code = """
import sys
sys.modules["pytorch_forecasting"] = None
import tsmamba.interop
from tsmamba.errors import MissingExtraError
try:
    import tsmamba.interop.pytorch_forecasting
except MissingExtraError as error:
    print(error)
"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert 'pip install "tsmamba[pytorch-forecasting]"' in done.stdout
