import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tsmamba import LogDetector
from tsmamba.cli import app
from tsmamba_datasets import make_service_logs

COMMAND = [sys.executable, "-c", "from tsmamba.cli import main; main()", "logs"]
NORMAL = make_service_logs(days=1, seed=0)["line"].to_list()[:4_000]
FAULTS = [
    *NORMAL[:500],
    f'{NORMAL[499].split()[0]} level=error service=api msg="disk 3 failed: no space left"',
    *NORMAL[500:700],
]


@pytest.fixture
def tsmamba_logs():
    """Run `tsmamba logs` with arguments."""
    return lambda *arguments, **options: CliRunner().invoke(
        app, ["logs", *map(str, arguments)], **options
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    (folder / "normal.log").write_text("".join(f"{line}\n" for line in NORMAL))
    (folder / "faults.log").write_text("".join(f"{line}\n" for line in FAULTS))
    LogDetector(stream_by="service", false_alarm_rate=1e-3).fit(NORMAL).save(folder / "model")
    LogDetector().fit(NORMAL[:500]).save(folder / "other model")
    return folder


@pytest.fixture
def model(folder: Path) -> Path:
    return folder / "model"


@pytest.fixture
def faults(folder: Path) -> Path:
    return folder / "faults.log"


@contextmanager
def start(*arguments, **options) -> Iterator[subprocess.Popen]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen([*COMMAND, *map(str, arguments)], **options) as process:
        try:
            yield process
        finally:
            process.kill()


def records(text) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def refusal(done, code: int = 2) -> str:
    assert done.exit_code == code, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in done.stderr
    return line


def test_a_log_is_learned_and_another_one_scored(
    tsmamba_logs, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    options = ("--stream-key", "service", "--false-alarm-rate", "0.001")
    done = tsmamba_logs("fit", folder / "normal.log", "--model", path, *options)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("note: 4,000 lines (logfmt), ")
    assert done.stderr.endswith(f"; the model is in {path}\n")
    done = tsmamba_logs("score", folder / "faults.log", "--model", path)
    assert done.exit_code == 0, done.stderr
    found = records(done.stdout)
    assert len(found) == len(FAULTS)
    (alert,) = [record for record in found if record["reason"] == "unseen_template"]
    assert alert["is_anomaly"]
    assert (alert["line_no"], alert["stream"], alert["severity"]) == (501, "api", "ERROR")
    assert alert["message"] == "disk 3 failed: no space left"
    alerts = sum(record["is_anomaly"] for record in found)
    assert done.stderr == f"note: {len(FAULTS):,} lines, {alerts:,} alerts\n"


def test_the_command_and_the_library_say_the_same(tsmamba_logs, model: Path, faults: Path) -> None:
    frame = LogDetector.load(model).score(faults)
    found = records(tsmamba_logs("score", faults, "--model", model).stdout)
    for name in ("line_no", "message", "template", "reason", "is_anomaly", "stream"):
        assert [record[name] for record in found] == frame[name].to_list()
    assert [record["score"] for record in found] == pytest.approx(
        frame["score"].to_list(), abs=1e-4
    )


def test_only_alerts_or_episodes_are_written(tsmamba_logs, model: Path, faults: Path) -> None:
    alerts = records(tsmamba_logs("score", faults, "--model", model, "--only", "alerts").stdout)
    assert 0 < len(alerts) < 20
    assert all(record["is_anomaly"] for record in alerts)
    episodes = records(tsmamba_logs("score", faults, "--model", model, "--only", "episodes").stdout)
    assert {episode["state"] for episode in episodes} == {"open", "close"}
    assert {episode["episode_id"] for episode in episodes} == {r["episode_id"] for r in alerts}


def test_an_alert_is_an_exit_code_if_asked_for(
    tsmamba_logs, model: Path, faults: Path, tmp_path
) -> None:
    arguments = ("score", "--model", model, "--fail-on-alert")
    assert tsmamba_logs(*arguments, faults).exit_code == 3
    quiet = tmp_path / "quiet.log"
    quiet.write_text("\n".join(NORMAL[:300]))
    assert tsmamba_logs(*arguments, quiet).exit_code == 0
    # An alert of the run before is not told again.
    kept = (*arguments, faults, "--checkpoint", tmp_path / "checkpoint")
    assert tsmamba_logs(*kept).exit_code == 3
    done = tsmamba_logs(*kept)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("note: 0 lines, 0 alerts")


def test_standard_input_is_read(tsmamba_logs, model: Path, tmp_path: Path) -> None:
    for source in ((), ("-",)):
        done = subprocess.run(
            [*COMMAND, "score", *source, "--model", str(model)],
            input="\n".join(FAULTS).encode(),
            capture_output=True,
            check=True,
        )
        assert len(records(done.stdout)) == len(FAULTS)
    done = subprocess.run(
        [*COMMAND, "fit", "--model", str(tmp_path / "m")],
        input="\n".join(NORMAL).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stderr.startswith(b"note: 4,000 lines")


def test_templates_are_listed(tsmamba_logs, model: Path) -> None:
    done = tsmamba_logs("templates", "--model", model)
    texts = {record["template"] for record in records(done.stdout)}
    assert "heartbeat ok, queue <*>" in texts


def test_alerts_are_explained_in_words(tsmamba_logs, model: Path, faults: Path) -> None:
    done = tsmamba_logs("explain", faults, "--model", model)
    assert done.exit_code == 0, done.stderr
    assert f"{faults}:501  api\n  disk 3 failed: no space left\n  score " in done.stdout
    assert "a kind of line that was never seen (sequence " in done.stdout
    everything = tsmamba_logs("explain", faults, "--model", model, "--all").stdout
    assert everything.count("  score ") == len(FAULTS)


def test_a_log_of_the_past_is_replayed(tsmamba_logs, model: Path, faults: Path) -> None:
    done = tsmamba_logs("replay", faults, "--model", model)
    first, *lines = done.stdout.splitlines()
    alerts = len(
        records(tsmamba_logs("score", faults, "--model", model, "--only", "alerts").stdout)
    )
    assert first == f"{len(FAULTS):,} results, {alerts:,} alerts"
    assert any("unseen_template: a kind of line that was never seen" in line for line in lines)
    assert f"  2026-03-02  {alerts}" in lines


def test_sessions_go_through_every_command(tsmamba_logs, tmp_path: Path) -> None:
    log, model = tmp_path / "jobs.log", tmp_path / "model"
    lines = [
        f"2026-03-01T{i // 360 % 24:02d}:{i // 6 % 60:02d}:{i % 6 * 10 + s}Z INFO job-{i} {text}"
        for i in range(400)
        for s, text in enumerate(("opens", "reads", "ends"))
    ]
    log.write_text("\n".join(lines))
    done = tsmamba_logs(
        "fit", log, "--model", model, "--session", r"job-\d+", "--session-timeout", 30
    )
    assert ", 400 sessions; the model is in" in done.stderr
    log.write_text("\n".join(line for i, line in enumerate(lines[:300]) if i != 151))
    (alert,) = records(tsmamba_logs("score", log, "--model", model, "--only", "alerts").stdout)
    assert (alert["stream"], alert["message"]) == ("job-50", "")
    assert "job-50" in tsmamba_logs("explain", log, "--model", model).stdout
    assert "100 results, 1 alerts" in tsmamba_logs("replay", log, "--model", model).stdout


def test_a_reader_that_goes_away_is_no_error(model: Path, faults: Path, tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    big.write_text("\n".join(FAULTS * 5))
    for command in (("score",), ("explain", "--all")):
        with start(*command, big, "--model", model) as process:
            assert process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
        assert b"Traceback" not in errors
        assert b"Exception ignored" not in errors
        assert b"error" not in errors


def test_what_nobody_read_is_scored_again(model: Path, faults: Path, tmp_path: Path) -> None:
    arguments = ("score", faults, "--model", model, "--checkpoint", tmp_path / "checkpoint")
    with start(*arguments, "--checkpoint-every", 0) as process:
        first = process.stdout.readline()
        process.stdout.close()
        process.stderr.read()
    whole = subprocess.run([*COMMAND, *map(str, arguments[:4])], capture_output=True, check=True)
    again = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, check=True)
    assert records(first) == records(whole.stdout)[:1]
    assert whole.stdout.endswith(again.stdout)


def wait_until(ready) -> None:
    end = time.monotonic() + 30.0
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_written_and_kept(
    model: Path, tmp_path: Path, number
) -> None:
    log, out = tmp_path / "app.log", tmp_path / "out"
    log.write_text("".join(f"{line}\n" for line in FAULTS))
    arguments = (
        "score",
        log,
        "--model",
        model,
        "--checkpoint",
        tmp_path / "checkpoint",
        "--follow",
    )
    with out.open("wb") as file, start(*arguments, stdout=file) as process:
        wait_until(lambda: out.read_bytes().count(b"\n") == len(FAULTS))
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr.read().startswith(b"note: 701 lines, ")
    with log.open("a") as file:
        file.write("".join(f"{line}\n" for line in NORMAL[700:800]))
    done = subprocess.run([*COMMAND, *map(str, arguments[:-1])], capture_output=True, check=True)
    assert [record["line_no"] for record in records(done.stdout)] == list(range(702, 802))


def test_counters_are_served_while_it_runs(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("\n".join(FAULTS) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "out"
    with (
        out.open("wb") as file,
        start("score", log, "--model", model, "-f", "--metrics-port", port, stdout=file) as process,
    ):
        wait_until(lambda: out.read_bytes().count(b"\n") == len(FAULTS))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"tsmamba_logs_lines_total 701\n" in answer.read()
        taken = subprocess.run(
            [*COMMAND, "score", str(log), "--model", str(model), "--metrics-port", str(port)],
            capture_output=True,
            check=False,
        )
        assert taken.returncode == 2
        assert taken.stderr.startswith(b"error: port ")
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", 0),
        (b"\n\n\n", None),
        (bytes(range(256)) * 200, None),
        (b"\xff\xfe\x00bad utf-8 \xc3\x28\nfine\n", 2),
        (b"x" * 10_000_000 + b"\nfine\n", 2),
        (b'{"a":' * 100_000 + b"\nfine\n", 2),
    ],
    ids=["empty", "blank", "binary", "not UTF-8", "10 MB", "deep JSON"],
)
def test_any_bytes_are_scored(
    tsmamba_logs, model: Path, tmp_path: Path, content: bytes, rows
) -> None:
    path = tmp_path / "strange.log"
    path.write_bytes(content)
    for command in ("score", "explain", "replay"):
        done = tsmamba_logs(command, path, "--model", model)
        assert done.exit_code == 0, done.stderr
        assert "Traceback" not in done.stderr
        if command == "score":
            found = records(done.stdout)
            assert len(found) == rows or rows is None
            assert all(len(record["message"]) <= 2_000 for record in found)


def test_what_cannot_be_read_is_refused(tsmamba_logs, model: Path, tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing.log", tmp_path / "empty.log"
    empty.touch()
    for command in ("score", "explain", "replay", "fit"):
        path = tmp_path / "new" if command == "fit" else model
        assert f"there is no file '{missing}'; check" in refusal(
            tsmamba_logs(command, missing, "--model", path)
        )
        message = refusal(tsmamba_logs(command, tmp_path, "--model", path))
        assert "is a folder" in message or "is a directory" in message
    assert "the log has 0 lines; give 100 or more" in refusal(
        tsmamba_logs("fit", empty, "--model", tmp_path / "new")
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--session", "("], r"session='(' is no regular expression"),
        (["--session", "block"], "session='block' finds 0 sessions in 4,000 lines"),
        (["--trim", "0.1"], "trim=0.1 leaves out sessions, and there are none"),
        (["--network", "lstm"], "network='lstm': give 'mamba' or None"),
        (["--false-alarm-rate", "0.9"], "false_alarm_rate=0.9: give the share"),
        (["--format", "xml"], "format='xml' is unknown"),
        (["--time-zone", "Mars"], "time_zone='Mars' is no IANA time zone"),
        (["--time-format", "%Q"], "time_format='%Q'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_cannot_be_used_is_refused(
    tsmamba_logs, folder: Path, tmp_path: Path, arguments, message
) -> None:
    done = tsmamba_logs("fit", folder / "normal.log", "--model", tmp_path / "model", *arguments)
    assert message.replace(",", "") in refusal(done).replace(",", "")
    assert not (tmp_path / "model").exists()


def test_models_and_checkpoints_that_do_not_fit_are_refused(
    tsmamba_logs, folder: Path, model: Path, faults: Path, tmp_path: Path
) -> None:
    kept = ("--checkpoint", tmp_path / "checkpoint")
    assert tsmamba_logs("score", faults, "--model", model, *kept).exit_code == 0
    before = (tmp_path / "checkpoint").read_bytes()
    other = tsmamba_logs("score", faults, "--model", folder / "other model", *kept)
    assert "belongs to the model" in refusal(other)
    assert other.stdout == ""
    assert (tmp_path / "checkpoint").read_bytes() == before
    for place in ("/proc/checkpoint", tmp_path / "no folder" / "checkpoint", tmp_path):
        done = tsmamba_logs("score", faults, "--model", model, "--checkpoint", place)
        assert done.stdout == ""
        assert "heckpoint" in refusal(done) or "folder" in refusal(done)
    assert "cannot read" in refusal(tsmamba_logs("score", faults, "--model", tmp_path / "no model"))
    assert "is no model of a log detector" in refusal(
        tsmamba_logs("score", faults, "--model", faults)
    )
    assert tsmamba_logs("score", faults, "--model", tmp_path).exit_code == 2


def test_a_refused_call_leaves_no_checkpoint(
    tsmamba_logs, model: Path, faults: Path, tmp_path: Path
) -> None:
    kept = ("--checkpoint", tmp_path / "checkpoint")
    for arguments in (
        (tmp_path / "missing.log",),
        (faults, "--only", "x"),
        (faults, "--read-from", "middle"),
    ):
        done = tsmamba_logs("score", *arguments, "--model", model, *kept)
        assert (done.exit_code, done.stdout) == (2, "")
        assert not (tmp_path / "checkpoint").exists()


def test_a_checkpoint_that_cannot_be_written_any_more_keeps_what_was_scored(
    model: Path, faults: Path, tmp_path: Path
) -> None:
    """A full disk under the checkpoint: what was written stays, and is written again after it."""
    checkpoint = tmp_path / "checkpoint"
    limit = (
        "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    )
    command = [sys.executable, "-c", limit + COMMAND[2], "logs"]
    arguments = [
        "score",
        str(faults),
        "--model",
        str(model),
        "--checkpoint",
        str(checkpoint),
        "--checkpoint-every",
        "0",
    ]
    done = subprocess.run([*command, *arguments], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"error: ")
    again = subprocess.run([*COMMAND, *arguments], capture_output=True, check=True)
    whole = subprocess.run([*COMMAND, *arguments[:4]], capture_output=True, check=True)
    known = {
        record["event_id"]: record for record in [*records(done.stdout), *records(again.stdout)]
    }
    assert list(known.values()) == records(whole.stdout)


def test_help_is_quick_and_names_every_command() -> None:
    done = subprocess.run(
        [*COMMAND, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    for name in ("fit", "score", "templates", "explain", "replay"):
        assert f" {name} " in done.stdout
