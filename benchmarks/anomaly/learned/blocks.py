"""The learned blocks that are judged, each beside the present ones or in place of one."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from benchmarks.anomaly.learned.encoder import (
    ConvEncoder,
    MambaEncoder,
    NextTokenEncoder,
    encoder_block,
)
from benchmarks.anomaly.learned.judged import Judged
from benchmarks.anomaly.learned.pool import members
from benchmarks.anomaly.learned.pooled import (
    PooledNetwork,
    corrected,
    pooled_corrector,
    pretrained,
)

Outcome = dict[str, float]


def _encoder(make: Callable[[], Any], judged: Judged, seed: int) -> Outcome:
    z, raw = (encoder_block(judged, make, form, seed) for form in ("z", "raw"))
    return {
        "z": judged.vus_pr([z]),
        "raw": judged.vus_pr([raw]),
        "z and raw": judged.vus_pr([z, raw]),
    }


def _pooled(judged: Judged, seed: int) -> Outcome:
    network = _network(seed)
    whole = corrected(judged, pooled_corrector(judged, network, gated=False))
    gated = corrected(judged, pooled_corrector(judged, network, gated=True))
    return {
        "instead": judged.vus_pr(residuals=whole),
        "instead, gated": judged.vus_pr(residuals=gated),
        "beside": judged.vus_pr([whole]),
    }


def _both(judged: Judged, seed: int) -> Outcome:
    z = encoder_block(judged, ConvEncoder, "z", seed)
    corrector = pooled_corrector(judged, _network(seed), gated=False)
    return {"z, instead": judged.vus_pr([z], corrected(judged, corrector))}


@cache
def _network(seed: int) -> PooledNetwork:
    return pretrained(list(members()), seed)


BLOCKS: dict[str, Callable[[Judged, int], Outcome]] = {
    "contrast, convolutions": partial(_encoder, ConvEncoder),
    "contrast, Mamba": partial(_encoder, MambaEncoder),
    "next token, Mamba": partial(_encoder, NextTokenEncoder),
    "pooled corrector": _pooled,
    "convolutions and pooled corrector": _both,
}
"""VUS-PR of the fusion by variant, of a series and a seed."""
