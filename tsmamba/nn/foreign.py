"""Folders of Mamba language models that others wrote: their settings and weights, unpickled.

Two layouts are read: that of mamba_ssm (``state-spaces/mamba-*``) and that of transformers
(``state-spaces/mamba-*-hf``). Of their settings, those that change numbers are taken over or
refused; those that set first values, choose kernels or hold data types change none here.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tsmamba.errors import ModelFileError

_CONFIG, _WEIGHTS, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_HEAD, _EMBEDDING = "lm_head.weight", "embedding.weight"
_FLOATS = ("F64", "F32", "F16", "BF16")
_PREFIXES = {
    "backbone.embedding.": "embedding.",  # mamba_ssm
    "backbone.embeddings.": "embedding.",  # transformers
    "backbone.": "stack.",
}
# Of mamba_ssm, which takes no other keys either.
_TAKEN = (
    "d_model", "n_layer", "vocab_size", "ssm_cfg", "pad_vocab_size_multiple", "tie_embeddings",
)  # fmt: skip
_ONLY = {"rms_norm": True, "d_intermediate": 0, "attn_layer_idx": []}
_NO_NUMBERS = ("residual_in_fp32", "fused_add_norm", "attn_cfg")
_MIXER_TAKEN = ("d_state", "d_conv", "expand", "dt_rank", "conv_bias", "bias")
_MIXER_ONLY = {"layer": "Mamba1"}
_MIXER_NO_NUMBERS = ("dt_min", "dt_max", "dt_init", "dt_scale", "dt_init_floor", "use_fast_path")


def read_options(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the settings of a checkpoint.

    Parameters
    ----------
    path : str or path
        Its folder.

    Returns
    -------
    dict
        Arguments of `tsmamba.nn.MambaLM`.

    Raises
    ------
    ModelFileError
        If there is no such folder, or its model is of another kind.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = '{"d_model": 8, "n_layer": 2, "vocab_size": 50}'
    ...     _ = (Path(folder) / "config.json").write_text(text)
    ...     read_options(folder)["vocab_size"]
    50
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ModelFileError(
            f"there is no folder {str(path)!r}; pass a local one that holds {_CONFIG} and "
            f"{_WEIGHTS}: nothing is downloaded here"
        )
    given = _read_json(folder / _CONFIG)
    config = _Config(str(folder / _CONFIG), given)
    if "model_type" not in given and {"d_model", "n_layer"} <= given.keys():
        return _of_mamba_ssm(config)
    if given.get("model_type") == "mamba":
        return _of_transformers(config)
    raise ModelFileError(
        f"{config.name!r} has model_type {given.get('model_type')!r}; MambaLM reads 'mamba', and "
        "the configs of mamba_ssm, which have d_model and n_layer and no model_type"
    )


def read_weights(
    path: str | os.PathLike[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, after a look at the names and shapes of all of them.

    Parameters
    ----------
    path : str or path
        Its folder, with one safetensors file or several under an index.
    shapes : dict of str to tuple of int
        The shape of each parameter, by the names of `tsmamba.nn.MambaLM`.

    Returns
    -------
    dict of str to Tensor
        By the same names, in float32.

    Raises
    ------
    ModelFileError
        If there are only pickled weights, a file is damaged, or a weight is missing, unknown, of
        another shape, or not of floating point.
    """
    files = _weight_files(Path(path))
    found: set[str] = set()
    for file in files:
        with _opened(file) as opened:
            for key in opened.keys():  # noqa: SIM118
                name, part = _own_name(key), opened.get_slice(key)
                _check(file, key, part.get_dtype(), tuple(part.get_shape()), _wanted(name, shapes))
                found.add(name)
    missing = [_foreign_name(name) for name in shapes if name not in found]
    if missing:
        raise ModelFileError(
            f"{str(path)!r} lacks {len(missing)} of {len(shapes)} weights, {missing[0]!r} the "
            f"first of them; copy all files anew, or correct {_CONFIG} if it is of another model"
        )
    weights: dict[str, Tensor] = {}
    for file in files:
        with _opened(file) as opened:
            for key in opened.keys():  # noqa: SIM118
                # Copies, for files pack tensors more tightly than kernels like.
                weights[_own_name(key)] = opened.get_tensor(key).to(torch.float32, copy=True)
    if _HEAD in shapes:
        return weights
    if not weights.pop(_HEAD, weights[_EMBEDDING]).equal(weights[_EMBEDDING]):
        raise ModelFileError(
            f"{str(path)!r} has a {_HEAD!r} of its own, while {_CONFIG} ties it to the embedding; "
            "set tie_embeddings (mamba_ssm) or tie_word_embeddings (transformers) to false there"
        )
    return weights


@dataclass(frozen=True)
class _Config:
    """Settings as they were given, read with their types."""

    name: str
    given: dict[str, Any]

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._refusal(key, value, "a whole number from 1 on")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.given.get(key, default)
        if not isinstance(value, bool):
            raise self._refusal(key, value, "true or false")
        return value

    def rank(self, key: str) -> int | None:
        """Return a rank of the step sizes, None where it follows from the width."""
        return None if self.given.get(key, "auto") == "auto" else self.whole(key)

    def epsilon(self, key: str, default: float) -> float:
        value = self.given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self._refusal(key, value, "a number above 0")
        return float(value)

    def part(self, key: str) -> "_Config":
        value = self.given.get(key, {})
        if not isinstance(value, dict):
            raise self._refusal(key, value, "an object")
        return _Config(f"{self.name}: {key}", value)

    def only(self, key: str, *accepted: Any) -> None:
        """Refuse values under which the numbers would be those of another network."""
        value = self.given.get(key, accepted[0])
        if value not in accepted:
            raise self._refusal(key, value, " or ".join(json.dumps(each) for each in accepted))

    def known(self, *keys: str) -> None:
        """Refuse keys of which nobody knows what they change."""
        unknown = sorted(self.given.keys() - set(keys))
        if unknown:
            raise ModelFileError(
                f"{self.name!r} sets {', '.join(map(repr, unknown))}, which MambaLM does not know; "
                "leave out what changes no numbers, and use the network's own library otherwise"
            )

    def _refusal(self, key: str, value: Any, accepted: str) -> ModelFileError:
        return ModelFileError(
            f"{self.name!r} has {key} = {json.dumps(value)}; MambaLM takes {accepted} there"
        )


def _of_mamba_ssm(config: _Config) -> dict[str, Any]:
    config.known(*_TAKEN, *_ONLY, *_NO_NUMBERS)
    for key, value in _ONLY.items():
        config.only(key, value)
    mixer = config.part("ssm_cfg")
    mixer.known(*_MIXER_TAKEN, *_MIXER_ONLY, *_MIXER_NO_NUMBERS)
    for key, value in _MIXER_ONLY.items():
        mixer.only(key, value)
    return {
        "vocab_size": config.whole("vocab_size"),
        "d_model": config.whole("d_model"),
        "n_layers": config.whole("n_layer"),
        "d_state": mixer.whole("d_state", 16),
        "d_conv": mixer.whole("d_conv", 4),
        "expand": mixer.whole("expand", 2),
        "dt_rank": mixer.rank("dt_rank"),
        "conv_bias": mixer.flag("conv_bias", True),
        "bias": mixer.flag("bias", False),
        "tie_embeddings": config.flag("tie_embeddings", True),
        "pad_vocab_size_multiple": config.whole("pad_vocab_size_multiple", 8),
    }


def _of_transformers(config: _Config) -> dict[str, Any]:
    config.only("hidden_act", "silu", "swish")
    config.only("quantization_config", None)
    return {
        "vocab_size": config.whole("vocab_size", 50280),
        "d_model": config.whole("hidden_size", 768),
        "n_layers": config.whole("num_hidden_layers", 32),
        "d_state": config.whole("state_size", 16),
        "d_conv": config.whole("conv_kernel", 4),
        "expand": config.whole("expand", 2),
        "dt_rank": config.rank("time_step_rank"),
        "conv_bias": config.flag("use_conv_bias", True),
        "bias": config.flag("use_bias", False),
        "norm_eps": config.epsilon("layer_norm_epsilon", 1e-5),
        "tie_embeddings": config.flag("tie_word_embeddings", True),
    }


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if (folder / _INDEX).is_file():
        return _parts(folder)
    pickled = sorted(file.name for file in folder.glob("*.bin"))
    if pickled:
        raise ModelFileError(
            f"{str(folder)!r} holds {pickled[0]!r}, a pickle, which can run any code as it is "
            "opened, so it is not read here. If you trust where it comes from, convert it once: "
            f"weights = torch.load({pickled[0]!r}, weights_only=True, map_location='cpu'), then "
            "safetensors.torch.save_file({name: x.clone() for name, x in weights.items()}, "
            f"{_WEIGHTS!r})"
        )
    raise ModelFileError(f"{str(folder)!r} holds neither {_WEIGHTS} nor {_INDEX}; copy one there")


def _parts(folder: Path) -> list[Path]:
    """Return the files under an index; one that points elsewhere is refused."""
    index = _Config(str(folder / _INDEX), _read_json(folder / _INDEX))
    placed = index.given.get("weight_map")
    names = sorted(map(str, placed.values())) if isinstance(placed, dict) else []
    files = [folder / name for name in dict.fromkeys(names)]
    for file in files:
        if file.parent != folder or not file.is_file():
            raise ModelFileError(
                f"{index.name!r} names {file.name!r}, which is no file beside it; "
                "copy all parts into one folder"
            )
    return files


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, framework="pt") as opened:
            yield opened
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"{str(file)!r} is not a whole safetensors file ({error}); copy it anew"
        ) from error


def _check(
    file: Path, key: str, dtype: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None
) -> None:
    if wanted is None:
        raise ModelFileError(
            f"{str(file)!r} holds {key!r}, of which the network has none; is it of another kind "
            f"than {_CONFIG} says?"
        )
    if shape != wanted:
        raise ModelFileError(
            f"{key!r} in {str(file)!r} has the shape {shape}, and by {_CONFIG} it is {wanted}; "
            "pass a folder whose files are of one model"
        )
    if dtype not in _FLOATS:
        raise ModelFileError(
            f"{key!r} in {str(file)!r} is of type {dtype}; MambaLM reads {', '.join(_FLOATS)}, so "
            "save the model without quantisation"
        )


def _wanted(name: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape of a parameter; a tied head may lie in the file once more."""
    return shapes.get(_EMBEDDING if name == _HEAD and _HEAD not in shapes else name)


def _own_name(key: str) -> str:
    """Return the name of a weight in `MambaLM`."""
    for foreign, own in _PREFIXES.items():
        if key.startswith(foreign):
            return own + key.removeprefix(foreign)
    return key


def _foreign_name(name: str) -> str:
    """Return the name of a parameter in mamba_ssm."""
    return name if name == _HEAD else "backbone." + name.removeprefix("stack.")


def _read_json(file: Path) -> dict[str, Any]:
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{str(file)!r} cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise ModelFileError(f"{str(file)!r} holds no JSON object; copy it anew")
    return read
