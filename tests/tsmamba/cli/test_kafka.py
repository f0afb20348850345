import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from tsmamba.cli import app
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.fitting import fitted_state
from tsmamba.logs.saved import digest_of, load_state, save_state
from tsmamba.logs.settings import LogSettings

COMMAND = [sys.executable, "-c", "from tsmamba.cli import main; main()", "logs", "score"]


def log(count):
    usual = [b"job %d started", b"job %d took 31 ms", b"job %d done"]
    return [b"disk failed" if n % 97 == 50 else usual[n % 3] % (n // 3) for n in range(count)]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(b"\n".join(log(1_500)))
    save_state(tmp_path / "app.model", fitted_state([path], LogSettings(), lambda lines: None))
    return tmp_path / "app.model"


@pytest.fixture
def score(model):
    """Run `tsmamba logs score` with arguments."""
    arguments = ["logs", "score", "--model", str(model)]
    return lambda *more: CliRunner().invoke(app, [*arguments, *map(str, more)])


def refusal(done):
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    return done.stderr.strip()


def test_a_topic_is_scored_to_its_end(cluster, score, tmp_path):
    cluster.send("app", log(300))
    config = tmp_path / "kafka.properties"
    config.write_text("# as on a slow line\n\nfetch.wait.max.ms = 10\n")
    done = score("--kafka", f"app@{cluster.servers}", "--kafka-config", config)
    assert done.exit_code == 0, done.stderr
    names = [json.loads(text)["event_id"] for text in done.stdout.splitlines()]
    assert names == [f"app/0:{offset}" for offset in range(300)]
    assert "note: 300 lines, " in done.stderr


def test_a_worker_has_its_partitions(cluster, score):
    for partition in range(4):
        cluster.send("app", log(20), partition)
    done = score("--kafka", f"app@{cluster.servers}", "--kafka-partitions", "1,3")
    names = {json.loads(text)["event_id"][:6] for text in done.stdout.splitlines()}
    assert names == {"app/1:", "app/3:"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kafka", "localhost:9092"], "--kafka localhost:9092: give TOPIC@HOST:PORT"),
        (["--kafka", "app@"], "--kafka app@: give TOPIC@HOST:PORT"),
        (["--kafka", "app@h:1", "app.log"], "--kafka and app.log: give a topic or other sources"),
        (["--kafka-output", "out"], "--kafka-output needs --kafka TOPIC@HOST:PORT; add it"),
        (["--kafka-partitions", "1"], "--kafka-partitions needs --kafka TOPIC@HOST:PORT; add it"),
        (
            ["--kafka", "app@h:1", "--kafka-partitions", "1-3"],
            "--kafka-partitions 1-3: give numbers with commas, as in 0,1",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(score, arguments, message):
    assert message in refusal(score(*arguments))


def test_a_setting_without_a_value_is_named_by_its_line_alone(score, tmp_path):
    config = tmp_path / "kafka.properties"
    config.write_text("sasl.username=me\nhunter2\n")
    message = refusal(score("--kafka", "app@h:1", "--kafka-config", config))
    assert message == f"error: line 2 of {config}: give name=value"


def test_a_topic_for_results_must_exist(cluster, score):
    cluster.send("app", log(3))
    done = score("--kafka", f"app@{cluster.servers}", "--kafka-output", "nowhere")
    assert "there is no topic 'nowhere' at" in refusal(done)


def test_a_scorer_killed_in_the_middle_has_each_result_once_and_the_same_state(
    cluster, model, tmp_path
):
    lines = log(8_000)
    cluster.send("results", [b"{}"])
    quick = tmp_path / "kafka.properties"
    quick.write_text("fetch.wait.max.ms=10\n")
    ends = ["--kafka", f"app@{cluster.servers}", "--kafka-config", quick, "--model", model]
    ends += ["--checkpoint-every", "0"]

    def checkpoint(name):
        return [*COMMAND, *ends, "--checkpoint", tmp_path / name]

    def committed(name):
        with Checkpoint(tmp_path / name, model=digest_of(load_state(model))) as kept:
            return kept.load()

    output = ["--kafka-output", "results", "--follow"]
    for life in range(2):
        cluster.send("app", lines[3_000 * life : 3_000 * (life + 1)])
        before = len(cluster.messages("results"))
        with subprocess.Popen([*checkpoint("killed"), *output], stderr=subprocess.PIPE) as scorer:
            while len(cluster.messages("results")) < before + 1_000:
                assert scorer.poll() is None, scorer.stderr.read()
                time.sleep(0.01)
            scorer.kill()
    positions, _ = committed("killed")
    assert 1_000 <= positions["kafka:app"]["0"] <= 6_000
    cluster.send("app", lines[6_000:])
    with subprocess.Popen([*checkpoint("killed"), *output], stderr=subprocess.PIPE) as scorer:
        while cluster.committed("app", "tsmamba")[0] < 8_000:
            assert scorer.poll() is None, scorer.stderr.read()
            time.sleep(0.05)
        os.kill(scorer.pid, signal.SIGTERM)
        assert scorer.wait(20) == 0
    whole = subprocess.run(checkpoint("whole"), capture_output=True, check=True, timeout=60)
    expected = {json.loads(text)["event_id"]: text for text in whole.stdout.splitlines()}
    found = {}
    for _, text in cluster.messages("results"):
        if text != b"{}":
            assert found.setdefault(json.loads(text)["event_id"], text) == text
    assert found == expected
    assert len(found) == 8_000
    assert committed("killed") == committed("whole")
