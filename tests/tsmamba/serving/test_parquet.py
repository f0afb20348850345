import numpy as np
import polars as pl
import pytest

from tsmamba import MambaDetector, MambaForecaster, Training
from tsmamba.errors import FrameError, ModelFileError, ParameterError
from tsmamba.serving.engines import score_parquet
from tsmamba.serving.frames import score_frame
from tsmamba.serving.loading import load_any
from tsmamba.serving.parquet import Job, Outcome
from tsmamba_datasets import make_seasonal

SERIES = make_seasonal(n_series=6, length=300, seed=3)
IDS = SERIES["unique_id"].unique(maintain_order=True).to_list()


def fitted(**kwargs):
    return MambaForecaster(24, mode="base", context_length=96, **kwargs).fit(SERIES)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def job(tmp_path, model):
    """Return a job of three parts with two series each, at several depths."""
    write(tmp_path, {f"{day}/{day}.parquet": IDS[2 * day : 2 * day + 2] for day in range(3)})
    model.save(tmp_path / "model.tsm")
    return Job(tmp_path / "in", tmp_path / "out", tmp_path / "model.tsm")


def write(folder, parts):
    for part, ids in parts.items():
        path = folder / "in" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        SERIES.filter(pl.col("unique_id").is_in(ids)).write_parquet(path)


def assert_same(one, other):
    """Compare answers; how many series are in a matrix product changes its last digits."""
    one, other = one.sort("unique_id", "ds"), other.sort("unique_id", "ds")
    assert one.select("unique_id", "ds").equals(other.select("unique_id", "ds"))
    assert one.columns == other.columns
    np.testing.assert_allclose(one[:, 2:].to_numpy(), other[:, 2:].to_numpy(), rtol=1e-5)


def run(job, **kwargs):
    """Return the state of each part."""
    return {each.part: each.state for each in score_parquet(job, **kwargs)}


def answers(job):
    return pl.read_parquet(sorted(job.target.rglob("*.parquet"))).sort("unique_id", "ds")


def test_answers_have_the_numbers_of_one_frame_and_the_names_of_their_parts(job, model):
    outcomes = list(score_parquet(job))
    assert outcomes == [Outcome(f"{day}/{day}.parquet", "scored", 48) for day in range(3)]
    assert_same(answers(job), score_frame(model, SERIES))
    [middle] = (job.target / "1").iterdir()
    assert pl.read_parquet(middle)["unique_id"].unique().sort().to_list() == IDS[2:4]


def test_how_series_are_dealt_to_parts_changes_no_number(job):
    run(job)
    before = answers(job)
    for path in [*job.source.rglob("*.parquet"), *job.target.rglob("*.parquet")]:
        path.unlink()
    write(job.source.parent, {"a.parquet": IDS[::2], "b.parquet": IDS[5:0:-2]})
    run(job)
    assert_same(answers(job), before)


def test_horizon_and_quantiles_reach_the_model(job):
    job = Job(job.source, job.target, job.model, horizon=2, quantiles=(0.5,))
    run(job)
    assert answers(job).columns == ["unique_id", "ds", "MambaForecaster", "MambaForecaster_q50"]
    assert answers(job).height == 12


# A second run


def test_finished_parts_are_kept(job):
    assert set(run(job).values()) == {"scored"}
    first = job.target / "0/0.parquet"
    times = first.stat().st_mtime_ns
    (job.target / "2/2.parquet").unlink()
    assert run(job) == {"0/0.parquet": "kept", "1/1.parquet": "kept", "2/2.parquet": "scored"}
    assert first.stat().st_mtime_ns == times


def test_rows_that_changed_are_scored_again(job):
    run(job)
    path = job.source / "1/1.parquet"
    pl.read_parquet(path).with_columns(pl.col("y") + 1).write_parquet(path)
    states = run(job)
    assert states == {"0/0.parquet": "kept", "1/1.parquet": "scored", "2/2.parquet": "kept"}


@pytest.mark.parametrize("change", ["model", "horizon", "quantiles"])
def test_another_model_or_request_scores_all_again(job, change):
    run(job)
    if change == "model":
        fitted(season_length=12).save(job.model)
    other = {"horizon": {"horizon": 3}, "quantiles": {"quantiles": (0.2,)}}.get(change, {})
    job = Job(job.source, job.target, job.model, **other)
    assert set(run(job).values()) == {"scored"}
    assert set(run(job).values()) == {"kept"}


def test_an_answer_that_was_cut_short_is_made_again(job):
    run(job)
    path = job.target / "0/0.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert run(job)["0/0.parquet"] == "scored"
    assert pl.read_parquet(path).height == 48


# What is wrong with parts


def test_a_broken_part_is_named_and_the_others_are_scored(job):
    path = job.source / "1/1.parquet"
    path.write_bytes(path.read_bytes()[:200])
    SERIES.head(5).with_columns(unique_id=pl.lit("short")).write_parquet(job.source / "x.parquet")
    failed, short = (each for each in score_parquet(job) if each.state == "failed")
    assert (failed.part, short.part) == ("1/1.parquet", "x.parquet")
    assert failed.reason
    assert "series 'short' is too short" in short.reason
    found = sorted(str(path.relative_to(job.target)) for path in job.target.rglob("*.parquet"))
    assert found == ["0/0.parquet", "2/2.parquet"]
    assert not [path for path in job.target.rglob("*") if path.name.startswith(".")]


def test_a_series_in_two_parts_is_refused_before_any_work(job):
    write(job.source.parent, {"2/more.parquet": [IDS[1]]})
    with pytest.raises(FrameError) as refused:
        score_parquet(job)
    assert f"series {IDS[1]!r} is in '0/0.parquet' and in '2/more.parquet'" in str(refused.value)
    assert not job.target.exists()


def test_parts_without_rows_and_hidden_files_are_passed_over(job):
    SERIES.clear().write_parquet(job.source / "none.parquet")
    for name in ("_delta.parquet", ".part.parquet", "_temporary/0/part.parquet"):
        (job.source / name).parent.mkdir(parents=True, exist_ok=True)
        (job.source / name).write_bytes(b"half")
    states = run(job)
    assert states.pop("none.parquet") == "empty"
    assert states == {f"{day}/{day}.parquet": "scored" for day in range(3)}


@pytest.mark.parametrize("target", ["in", "in/out"])
def test_answers_among_the_parts_are_refused(job, tmp_path, target):
    with pytest.raises(ParameterError, match="would lie among the parts"):
        score_parquet(Job(job.source, tmp_path / target, job.model))


def test_folders_without_parts_are_refused(job, tmp_path):
    with pytest.raises(ParameterError, match="there is no folder"):
        score_parquet(Job(tmp_path / "nowhere", job.target, job.model))
    (tmp_path / "bare").mkdir()
    with pytest.raises(ParameterError, match=r"holds no file whose name ends with \.parquet"):
        score_parquet(Job(tmp_path / "bare", job.target, job.model))


@pytest.mark.parametrize(
    ("given", "message"),
    [({"workers": 0}, "workers=0; pass a whole"), ({"engine": "dask"}, "engine='dask'; pass one")],
)
def test_engines_that_do_not_exist_are_refused(job, given, message):
    with pytest.raises(ParameterError, match=message):
        score_parquet(job, **given)


# Columns in paths


def test_columns_in_paths_are_read_and_ids_stay_text(tmp_path, model):
    folder = tmp_path / "x=1" / "in"  # outside of the folder nothing is a column
    for number, series in enumerate(IDS[:2]):
        path = folder / f"unique_id=0{number}" / "part.parquet"
        path.parent.mkdir(parents=True)
        SERIES.filter(unique_id=series).drop("unique_id").write_parquet(path)
    model.save(tmp_path / "model.tsm")
    job = Job(folder, tmp_path / "out", tmp_path / "model.tsm")
    assert set(run(job).values()) == {"scored"}
    renamed = SERIES.filter(pl.col("unique_id").is_in(IDS[:2])).with_columns(
        pl.col("unique_id").replace_strict({IDS[0]: "00", IDS[1]: "01"})
    )
    expected = score_frame(model, renamed)
    for number in range(2):
        answer = pl.read_parquet(
            job.target / f"unique_id=0{number}/part.parquet", hive_partitioning=False
        )
        assert_same(answer, expected.filter(unique_id=f"0{number}"))


def test_a_series_in_two_parts_of_one_path_is_refused(job):
    for name in ("a", "b"):
        path = job.source / "unique_id=7" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        SERIES.head(300).drop("unique_id").write_parquet(path)
    with pytest.raises(FrameError, match=r"series '7' is in 'unique_id=7/a\.parquet'"):
        score_parquet(job)


# Models


def test_detectors_take_each_part_without_ids_for_one_series(tmp_path, rng):
    rows = pl.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    detector = MambaDetector("tiny").fit(rows)
    detector.save(tmp_path / "model.tsm")
    (tmp_path / "in").mkdir()
    for number, part in enumerate((rows.head(300), rows.tail(100))):
        part.write_parquet(tmp_path / "in" / f"{number}.parquet")
    job = Job(tmp_path / "in", tmp_path / "out", tmp_path / "model.tsm")
    assert [each.rows for each in score_parquet(job)] == [300, 100]
    last = pl.read_parquet(job.target / "1.parquet")
    assert last.equals(score_frame(detector, rows.tail(100)))


def test_a_model_that_is_none_is_refused(job):
    job.model.write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match="holds no model of tsmamba; give a file that save"):
        load_any(job.model)
    with pytest.raises(ModelFileError, match=r"cannot read '.*nowhere': No such file"):
        score_parquet(Job(job.source, job.target, job.model.with_name("nowhere")))


def test_a_forecaster_of_events_is_refused(tmp_path, make_records):
    knobs = Training(max_steps=1)
    records = make_records(12).events
    MambaForecaster(preset="ehr", training=knobs, random_state=0).fit(records).save(tmp_path / "f")
    with pytest.raises(ModelFileError, match="holds a MambaForecaster of events"):
        load_any(tmp_path / "f")


# Other ways to the same numbers


def test_a_group_of_pandas_at_a_time_is_scored_like_the_whole(model):
    """Spark's ``applyInPandas`` calls a function with one such group at a time."""
    rows = SERIES.to_pandas()
    groups = rows.groupby("unique_id", sort=False)
    whole = pl.from_pandas(score_frame(model, rows))
    parts = [score_frame(model, group) for _, group in groups]
    assert {type(part) for part in parts} == {type(rows)}
    assert_same(pl.concat(pl.from_pandas(part) for part in parts), whole)
