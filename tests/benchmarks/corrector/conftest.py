from dataclasses import replace

import pytest

from tools import pretrain
from tools.pool import Member, make_series


@pytest.fixture(scope="session")
def pool():
    """Return a pool of two short members, with forecasts of 48 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain, "HORIZON", 48)
        patch.setattr(pretrain, "HORIZONS", (24, 48))
        members = [
            Member(f"member {seed}", "made", 24, lambda seed=seed: make_series(seed, 24, 2, 1_500))
            for seed in (0, 1)
        ]
        prepared = [pretrain.prepare(member, pretrain.CONFIG) for member in members]
        yield [replace(one, validation=one.validation.thinned(20)) for one in prepared]
