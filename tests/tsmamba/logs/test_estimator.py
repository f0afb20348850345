import datetime as dt
import gzip
import json
import re
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tsmamba import LogDetector
from tsmamba.errors import FrameError, ModelFileError, ParameterError

USUAL = [
    f"2026-03-01 10:{i // 60 % 60:02d}:{i % 60:02d} INFO job {i} took {20 + i % 7} ms"
    for i in range(600)
]
STRANGE = [*USUAL[:50], "2026-03-01 10:00:49 ERROR disk 7 failed", *USUAL[50:100]]
SCORES = ("line_no", "severity", "message", "template", "score", "is_anomaly", "reason", "status")
START = dt.datetime(2026, 3, 1, 10)


@pytest.fixture(scope="module")
def detector():
    return LogDetector(multiline=None).fit(USUAL)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("".join(f"{line}\n" for line in STRANGE))
    return path


def frame(lines=USUAL, **columns):
    """Return the messages of lines as a frame, with a time for each."""
    messages = [re.sub(r"^\S+ \S+ \S+ ", "", line) for line in lines]
    times = [START + dt.timedelta(seconds=i) for i in range(len(lines))]
    return pl.DataFrame({"time": times, "message": messages, **columns})


def test_what_is_strange_is_found_and_has_a_row(detector):
    result = detector.score(STRANGE)
    assert result.filter("is_anomaly")["line_no"].to_list() == [51]
    row = result.row(50, named=True)
    assert (row["reason"], row["severity"], row["source"]) == ("unseen_template", "ERROR", "lines")
    assert row["message"] == "disk 7 failed"
    assert row["time"] == dt.datetime(2026, 3, 1, 10, 0, 49, tzinfo=dt.UTC)
    assert row["score"] > 1.0 >= result["score"].drop_nulls().sort(descending=True)[1]
    assert row["p_value"] <= 1e-5
    assert row["episode_id"] == row["event_id"]
    assert detector.report_["lines"] == len(USUAL)


@pytest.mark.parametrize(
    "form", ["path", "text", "list", "bytes", "generator", "file", "frame", "pandas", "lazy"]
)
def test_a_log_may_be_given_in_any_form(detector, log, form):
    lines = {"line": STRANGE}
    source = {
        "path": log,
        "text": str(log),
        "list": STRANGE,
        "bytes": [line.encode() for line in STRANGE],
        "generator": (line for line in STRANGE),
        "frame": pl.DataFrame(lines),
        "pandas": pd.DataFrame(lines),
        "lazy": pl.LazyFrame(lines),
    }
    expected = detector.score(STRANGE).select(SCORES)
    if form == "file":
        with log.open() as file:
            assert_frame_equal(detector.score(file).select(SCORES), expected)
        return
    assert_frame_equal(detector.score(source[form]).select(SCORES), expected)


def test_fitting_on_any_form_learns_the_same(tmp_path):
    path = tmp_path / "usual.log.gz"
    path.write_bytes(gzip.compress("\n".join(USUAL).encode()))
    expected = LogDetector().fit(USUAL).score(STRANGE).select(SCORES)
    for source in (path, iter(USUAL), pl.DataFrame({"line": USUAL}), [path]):
        assert_frame_equal(LogDetector().fit(source).score(STRANGE).select(SCORES), expected)


def test_several_files_are_read_one_after_the_other(detector, tmp_path):
    paths = [tmp_path / name for name in ("one", "two")]
    paths[0].write_text("\n".join(STRANGE[:60]) + "\n")
    paths[1].write_text("\n".join(STRANGE[60:]))
    result = detector.score(paths)
    assert result["message"].to_list() == detector.score(STRANGE)["message"].to_list()
    assert result["source"].unique(maintain_order=True).to_list() == [str(path) for path in paths]
    fitted = LogDetector().fit([str(path) for path in paths])
    assert fitted.report_["lines"] == len(STRANGE)


def test_messages_and_templates_of_frames_are_used():
    detector = LogDetector(stream_by="service").fit(frame(service=["web"] * len(USUAL)))
    odd = frame(STRANGE[40:60], service=["web"] * 20, severity=["error"] * 20)
    result = detector.score(odd)
    assert 11 in result.filter("is_anomaly")["line_no"].to_list()
    assert result["stream"].unique().to_list() == ["web"]
    assert result["severity"].unique().to_list() == ["ERROR"]
    templates = pl.DataFrame({"template": ["start", "run", "stop"] * 200})
    given = LogDetector().fit(templates)
    assert given.templates()["template"].to_list() == ["start", "run", "stop"]
    odd = given.score(pl.DataFrame({"template": ["start", "run", "crash", "stop", None]}))
    assert odd["reason"][2] == "unseen_template"


def test_more_given_templates_than_there_is_room_for_are_mined():
    names = pl.DataFrame({"template": [f"thing {'x' * (i % 300)} began" for i in range(3_000)]})
    detector = LogDetector(max_templates=64).fit(names)
    assert detector.report_["templates"] <= 64
    assert detector.score(names.head(500)).height == 500


def test_values_that_are_no_text_are_taken_as_text(detector):
    odd = frame(USUAL[:20], severity=[3] * 20, code=[1.5] * 20)
    result = detector.score(odd.with_columns(message=pl.lit(None, dtype=pl.String)).drop("time"))
    assert result["message"].to_list() == [""] * 20
    assert result["severity"].to_list() == ["ERROR"] * 20


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_frames_are_points_in_time(detector, zone, unit):
    rows = frame(USUAL[:10]).with_columns(pl.col("time").cast(pl.Datetime(unit)))
    rows = rows.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    rows = rows.with_columns(
        pl.col("time").dt.replace_time_zone(None)
        if zone is None
        else pl.col("time").dt.convert_time_zone(zone)
    )
    assert detector.score(rows)["time"][3] == START.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=3)


def jobs(count, first=0):
    rows = [
        (i * 10 + step, f"job-{i}", text)
        for i in range(first, first + count)
        for step, text in enumerate(("opens", "works", "ends"))
    ]
    return pl.DataFrame(
        {
            "time": [START + dt.timedelta(seconds=second) for second, *_ in rows],
            "message": [f"{name} {text}" for _, name, text in rows],
            "job": [name for _, name, _ in rows],
        }
    )


@pytest.mark.parametrize("session", ["job", r"job-\d+", r"(job-\d+) "])
def test_sessions_are_told_by_a_field_or_a_pattern(session):
    detector = LogDetector(session=session, session_timeout=60.0, false_alarm_rate=1e-2).fit(
        jobs(300)
    )
    assert detector.report_["sessions"] == 300
    odd = jobs(40, first=500).filter(~pl.col("message").is_in(["job-505 works", "job-530 ends"]))
    result = detector.score(odd)
    assert result.height == 40
    assert set(result.filter("is_anomaly")["stream"]) == {"job-505", "job-530"}
    assert result["stream"].to_list() == [f"job-{i}" for i in range(500, 540)]
    parts = detector.explain(odd)
    names = [name for name in parts.columns if name not in result.columns]
    assert parts.select(pl.sum_horizontal(names) - pl.col("score")).to_series().abs().max() < 1e-9


def test_the_parts_of_a_line_have_its_score_as_their_highest(detector):
    parts = detector.explain(STRANGE)
    assert_frame_equal(parts.select(detector.score(STRANGE).columns), detector.score(STRANGE))
    names = [name for name in parts.columns if name not in detector.score(STRANGE).columns]
    highest = parts.select(pl.max_horizontal(names)).to_series()
    assert ((highest - parts["score"]).abs() < 0.01).all()


def test_an_empty_log_has_no_rows(detector):
    empty = detector.score([])
    assert empty.schema == detector.score(STRANGE).schema
    assert empty.height == 0
    assert detector.explain([]).height == 0


def test_scores_do_not_depend_on_what_was_scored_before(detector):
    first = detector.score(STRANGE)
    detector.score(["something else"] * 500)
    assert_frame_equal(detector.score(STRANGE), first)


def test_it_is_an_estimator_of_scikit_learn():
    detector = LogDetector(session="job", trim=0.2, stream_by=("a", "b"), cool_down=5.0)
    copy = clone(detector)
    assert copy.get_params() == detector.get_params()
    assert copy.set_params(trim=None).trim is None
    with pytest.raises(NotFittedError):
        copy.score(STRANGE)
    with pytest.raises(NotFittedError):
        copy.stream()
    with pytest.raises(NotFittedError):
        copy.save("model")


@pytest.mark.parametrize("options", [{}, {"session": "job", "trim": 0.0}, {"stream_by": ["job"]}])
def test_a_saved_detector_scores_the_same(tmp_path, options):
    detector = LogDetector(session_timeout=60.0, **options).fit(jobs(300))
    detector.save(tmp_path / "model")
    loaded = LogDetector.load(tmp_path / "model")
    odd = jobs(100, first=500).filter(pl.col("message") != "job-505 works")
    assert_frame_equal(loaded.score(odd), detector.score(odd))
    assert loaded.report_ == detector.report_
    assert_frame_equal(loaded.templates(), detector.templates())
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"model", "again"}


def test_a_model_of_any_text_is_saved(tmp_path):
    lines = [*USUAL, *["\u2028 ünï \x00 \udcff"] * 3]
    detector = LogDetector().fit([line.encode("utf-8", "surrogateescape") for line in lines])
    detector.save(tmp_path / "model")
    assert_frame_equal(LogDetector.load(tmp_path / "model").score(USUAL), detector.score(USUAL))


DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": lambda data: data[:200] + bytes([data[200] ^ 0x55]) + data[201:],
    "text": lambda data: b"this is a log\n" * 10,
    "altered": lambda data: gzip.compress(
        gzip.decompress(data).replace(b'"cool_down":300.0', b'"cool_down":301.0')
    ),
    "no head": lambda data: gzip.compress(b"[1, 2]\n{}"),
    "other kind": lambda data: gzip.compress(
        gzip.decompress(data).replace(b"LogDetector", b"AnomalyDetector")
    ),
    "too new": lambda data: gzip.compress(
        gzip.decompress(data).replace(b'"version": 2', b'"version": 3')
    ),
    "not json": lambda data: gzip.compress(b"\xff\xfe\n{}"),
}
REASONS = {
    "altered": r"was altered: its check sum is wrong\. Fit it again",
    "other kind": r"holds AnomalyDetector of version 2; this version of tsmamba reads LogDetector",
    "too new": r"holds LogDetector of version 3; .* reads LogDetector of version 2\. Fit it again",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused(detector, tmp_path, damage):
    path = tmp_path / "model"
    detector.save(path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    reason = REASONS.get(damage, "is no model of a log detector, or is cut short; give a file that")
    with pytest.raises(ModelFileError, match=reason):
        LogDetector.load(path)


@pytest.mark.parametrize("place", [100, 300, 1_000, -5])
def test_a_model_with_one_wrong_byte_is_refused(detector, tmp_path, place):
    path = tmp_path / "model"
    detector.save(path)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(ModelFileError, match=r"Fit it again|give a file that"):
        LogDetector.load(path)


def test_places_without_a_model_are_refused(detector, tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot read .*missing.*No such file"):
        LogDetector.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match=r"cannot read .*: Is a directory"):
        LogDetector.load(tmp_path)
    with pytest.raises(ModelFileError, match=r"cannot write .*: No such file"):
        detector.save(tmp_path / "no folder" / "model")
    with pytest.raises(ModelFileError, match=r"cannot write "):
        detector.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


WRONG = {
    "few lines": (USUAL[:20], {}, r"the log has 20 lines; give 100 or more to learn from"),
    "none": ([], {}, r"the log has 0 lines; give 100 or more"),
    "text": ("\n".join(USUAL), {}, r"text of several lines; give a path, .*text\.splitlines\(\)"),
    "bytes": (b"a line", {}, r"a log of type bytes; give a path, several paths, an iterable"),
    "number": (7, {}, r"a log of type int; give a path, several paths"),
    "nothing": (None, {}, r"a log of type NoneType; give a path"),
    "missing": ("missing.log", {}, r"there is no file 'missing.log'; check the path"),
    "numbers": ([1, 2, 3], {}, r"line 1 of 'lines' is a int; give text or bytes"),
    "no rows": (pl.DataFrame({"line": []}), {}, r"the log has no rows; give at least one"),
    "no columns": (
        pl.DataFrame({"a": [1], "b": [2]}),
        {},
        r"the columns 'a', 'b'; give the text in 'line' or",
    ),
    "time": (
        frame().with_columns(time=pl.lit(5)),
        {},
        r"'time' is Int32; give times as Datetime or Date",
    ),
    "duration": (
        frame().with_columns(time=pl.lit(dt.timedelta(1))),
        {},
        r"'time' is Duration.*; give times as",
    ),
    "field": (
        jobs(100),
        {"session": "block"},
        r"'block' finds 0 sessions in 300 lines.*fields \['job'\]\. Give",
    ),
    "pattern": (
        USUAL,
        {"session": r"blk_\d+"},
        r"finds 0 sessions in 600 .*first message is 'job 0 took 20 ms'\. Give",
    ),
    "regex": (
        USUAL,
        {"session": "("},
        r"session='\(' is no regular expression \(.*\); give one that finds",
    ),
    "session": (
        USUAL,
        {"session": 7},
        r"session=7: give a regular expression .*, or the name of a field, or None",
    ),
    "empty": (USUAL, {"session": ""}, r"session='': give .* or None"),
    "multiline": (USUAL, {"multiline": "("}, r"multiline='\(' is no regular expression"),
    "rate": (
        USUAL,
        {"false_alarm_rate": 0.0},
        r"false_alarm_rate=0.0: give the share .*over 0 and 0.5 at most",
    ),
    "rate nan": (USUAL, {"false_alarm_rate": float("nan")}, r"false_alarm_rate=nan: give"),
    "rate text": (USUAL, {"false_alarm_rate": "1%"}, r"false_alarm_rate='1%': give"),
    "trim": (
        USUAL,
        {"session": "job", "trim": 0.5},
        r"trim=0.5: give a share from 0 to below 0.5, or None",
    ),
    "trim text": (USUAL, {"session": "job", "trim": "a"}, r"trim='a': give a share"),
    "trim lines": (
        USUAL,
        {"trim": 0.1},
        r"trim=0.1 leaves out sessions, and there are none: give session",
    ),
    "format": (USUAL, {"format": "xml"}, r"format='xml' is unknown; accepted are 'auto', 'raw'"),
    "time format": (USUAL, {"time_format": "%Q"}, r"time_format='%Q'"),
    "zone": (USUAL, {"time_zone": "Mars"}, r"time_zone='Mars' is no IANA time zone"),
    "timeout": (
        USUAL,
        {"session_timeout": -1.0},
        r"session_timeout=-1.0: give seconds of log time, more than 0",
    ),
    "timeout text": (USUAL, {"session_timeout": "1h"}, r"session_timeout='1h': give seconds"),
    "timeout inf": (USUAL, {"session_timeout": float("inf")}, r"session_timeout=inf: give seconds"),
    "cool down": (USUAL, {"cool_down": None}, r"cool_down=None: give seconds of log time"),
    "templates": (USUAL, {"max_templates": 3}, r"max_templates=3: give 16 or more"),
    "templates text": (USUAL, {"max_templates": "9"}, r"max_templates='9': give a whole number"),
    "streams": (USUAL, {"stream_by": 5}, r"stream_by=5: give names of fields"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used_is_refused_and_changes_nothing(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, options, reason = WRONG[case]
    detector = LogDetector().fit(USUAL)
    before = detector.score(STRANGE)
    detector.set_params(**options)
    with pytest.raises((ParameterError, FrameError), match=reason) as refused:
        detector.fit(source)
    assert "\n" not in str(refused.value)
    assert_frame_equal(detector.score(STRANGE), before)


def test_folders_are_refused(detector, tmp_path):
    for source in (tmp_path, [tmp_path]):
        with pytest.raises(ParameterError, match=r"folder|directory"):
            detector.fit(source)
        with pytest.raises(ParameterError, match=r"folder|directory"):
            detector.score(source)
    (tmp_path / "empty.log").touch()
    with pytest.raises(ParameterError, match=r"the log has 0 lines; give 100 or more"):
        LogDetector().fit(tmp_path / "empty.log")
    assert detector.score(tmp_path / "empty.log").height == 0


def test_of_several_paths_all_must_be_there(detector, log):
    with pytest.raises(ParameterError, match=r"there is no file '.*missing.log'"):
        detector.score([log, Path("missing.log")])


def test_results_are_json(detector):
    stream = detector.stream()
    for result in stream.feed(STRANGE):
        record = json.loads(result.to_json())
        assert record["schema_version"] == 1
        assert record["is_anomaly"] == result.is_anomaly
        assert record["contrib"] == pytest.approx(result.parts, abs=1e-4)


def test_a_loaded_detector_has_the_parameters_that_were_given(tmp_path):
    detector = LogDetector(stream_by=("service",), cool_down=60.0).fit(USUAL)
    detector.save(tmp_path / "model")
    assert LogDetector.load(tmp_path / "model").get_params() == detector.get_params()
