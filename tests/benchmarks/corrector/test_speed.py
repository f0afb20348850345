import torch

from benchmarks.corrector.speed import OurForecast, Sizes, report, take_turns, training_step

SIZES = Sizes(batch=4, context=64, horizon=24, width=8)


def test_a_training_step_lowers_the_loss():
    torch.manual_seed(0)
    step = training_step(OurForecast(SIZES), SIZES)
    first = step()
    assert min(step() for _ in range(30)) < 0.95 * first


def test_contestants_take_turns_after_a_warm_up():
    called = []
    turns = take_turns(lambda: called.append("ours"), lambda: called.append("theirs"), 0.0)
    assert called == ["ours", "theirs"] * (len(called) // 2)
    assert len(called) // 2 > len(turns) == 3


def test_the_ratio_is_the_median_of_ratios_in_a_turn():
    got = report([(1.0, 2.0), (10.0, 30.0), (1.0, 4.0)])
    assert (got["ratio"], got["ours_ms"], got["patchtst_ms"]) == (3.0, 1000.0, 4000.0)
