import urllib.error
import urllib.request

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.monitor import Monitor, page
from tsmamba.logs.service import Counters


def get(monitor, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor.port}{path}", timeout=10) as answer:
        return answer.headers, answer.read().decode()


def values(text):
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))


def test_counters_are_served_as_they_are_now():
    counters = Counters()
    with Monitor(counters, 0) as monitor:
        assert monitor.port > 0
        headers, text = get(monitor)
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert values(text)["tsmamba_logs_lines_total"] == "0"
        counters.lines, counters.checkpoint_time = 12_345_678_901, 1_700_000_000.5
        _, text = get(monitor)
        assert values(text)["tsmamba_logs_lines_total"] == "12345678901"
        assert float(values(text)["tsmamba_logs_checkpoint_time"]) == 1_700_000_000.5
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(monitor, "/")
    with pytest.raises(urllib.error.URLError):
        get(monitor)


def test_each_counter_has_a_help_and_a_type():
    lines = page(Counters()).splitlines()
    assert len(lines) % 3 == 0
    for help_, type_, value in zip(*[iter(lines)] * 3, strict=True):
        name = value.split()[0]
        assert help_.startswith(f"# HELP {name} ")
        assert type_ == f"# TYPE {name} " + ("counter" if name.endswith("_total") else "gauge")


def test_a_port_that_cannot_be_used_is_refused():
    refused = pytest.raises(ParameterError, match=r"port \d+ cannot be served on \(Address already")
    with Monitor(Counters(), 0) as monitor, refused:
        Monitor(Counters(), monitor.port)
    with pytest.raises(ParameterError, match=r"port 70000 cannot be served on .*; give another"):
        Monitor(Counters(), 70_000)
