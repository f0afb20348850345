import sys
from importlib.abc import MetaPathFinder

import pytest

from tsmamba.benchmark.plan import Plan

PEERS = ("mambapy", "transformers")


class _Hidden(MetaPathFinder):
    """Makes the peers look as if they were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name in PEERS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def no_peers(monkeypatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in PEERS:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hidden(), *sys.meta_path])


@pytest.fixture
def tiny() -> Plan:
    """Sizes at which everything takes moments."""
    return Plan(
        scan=(1, 32, 8, 4),
        threads_scan=(1, 64, 16, 4),
        training_length=32,
        inference_length=64,
        block_length=16,
        lengths=(16, 32, 64),
        seconds=0.0,
        call_seconds=1.0,
        step_calls=160,
    )
