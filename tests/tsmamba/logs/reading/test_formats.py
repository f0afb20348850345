import json

import pytest

from tsmamba.logs.reading import LineParser

STAMP = 1_700_000_000_123_000_000

RECORDS = [
    (
        "json",
        '{"time":"2023-11-14T22:13:20.123Z","level":"info","http":{"status":200,"ok":true},'
        '"msg":"placed","tags":["a"],"none":null}',
        ("placed", STAMP, "INFO", {"http.status": "200", "http.ok": "true"}, None),
    ),
    (  # pino
        "json",
        '{"level":40,"time":1700000000123,"pid":7,"msg":"slow"}',
        ("slow", STAMP, "WARN", {"pid": "7"}, None),
    ),
    (  # zap
        "json",
        '{"level":"error","ts":1700000000.123,"caller":"a.go:1","msg":"x"}',
        ("x", STAMP, "ERROR", {"caller": "a.go:1"}, None),
    ),
    (  # ECS
        "json",
        '{"@timestamp":"2023-11-14T22:13:20,123Z","log":{"level":"DEBUG"},"message":"m"}',
        ("m", STAMP, "DEBUG", {}, None),
    ),
    (  # journald
        "json",
        '{"PRIORITY":"2","__REALTIME_TIMESTAMP":"1700000000123000","MESSAGE":"m","_PID":"9"}',
        ("m", STAMP, "FATAL", {"_PID": "9"}, None),
    ),
    (
        "json",
        '{"ts":1700000000123000000,"body":"x 5","attributes":{"log.record.template":"x <*>"}}',
        ("x 5", STAMP, None, {}, "x <*>"),
    ),
    (
        "json",
        '{"log.record.template":"x <*>","event":"x 5","ds":"2023-11-14 22:13:20.123"}',
        ("x 5", STAMP, None, {}, "x <*>"),
    ),
    (  # without a message the line is the message
        "json",
        '{"ts":1700000000.123,"a":1}',
        ('{"ts":1700000000.123,"a":1}', STAMP, None, {"a": "1"}, None),
    ),
    (
        "logfmt",
        'ts=2023-11-14T22:13:20.123Z level=warn msg="a \\"b\\" = c" err="" n=5 key=x/y',
        ('a "b" = c', STAMP, "WARN", {"err": "", "n": "5", "key": "x/y"}, None),
    ),
    (
        "syslog",
        '<165>1 2023-11-14T22:13:20.123Z web app 42 ID47 [a@1 k="1 \\"q\\" \\]"][b c="d"] \ufeffup',
        (
            "up", STAMP, "INFO",
            {"host": "web", "process": "app", "pid": "42", "msgid": "ID47",
             "a@1.k": '1 "q" ]', "b.c": "d"},
            None,
        ),
    ),
    (
        "syslog",
        "<34>1 2023-11-14T22:13:20.123Z - su - - - failed",
        ("failed", STAMP, "FATAL", {"process": "su"}, None),
    ),
    (
        "syslog",
        "<11>Nov 14 22:13:20.123 web su: 'su root' failed",
        ("'su root' failed", STAMP, "ERROR", {"host": "web", "process": "su"}, None),
    ),
    (
        "syslog",
        "Nov 14 22:13:20.123 combo sshd(pam_unix)[19939]: authentication failure; uid=0",
        (
            "authentication failure; uid=0", STAMP, None,
            {"host": "combo", "process": "sshd(pam_unix)", "pid": "19939"}, None,
        ),
    ),
    (
        "syslog",
        "2023-11-14T23:13:20.123+01:00 web sshd[12]: error: no route",
        (
            "error: no route", STAMP, "ERROR",
            {"host": "web", "process": "sshd", "pid": "12"}, None,
        ),
    ),
    (
        "cri",
        "2023-11-14T22:13:20.123Z stderr F 2020-01-01 00:00:00 WARN slow",
        ("slow", STAMP, "WARN", {"stream": "stderr"}, None),
    ),
    (
        "cri",
        '2023-11-14T22:13:20.123Z stdout P {"msg":"a\n2023-11-14T22:13:21Z stdout F b","n":null}',
        ("ab", STAMP, None, {"stream": "stdout"}, None),
    ),
    (
        "docker",
        '{"log":"[error] x\\n","stream":"stdout","time":"2023-11-14T22:13:20.123Z"}',
        ("x", STAMP, "ERROR", {"stream": "stdout"}, None),
    ),
    (
        "otlp",
        json.dumps(
            {
                "timeUnixNano": "1700000000123000000",
                "severityNumber": 17,
                "body": {"stringValue": "boom 5"},
                "attributes": [
                    {"key": "log.record.template", "value": {"stringValue": "boom <*>"}},
                    {"key": "n", "value": {"intValue": "5"}},
                    {"key": "o", "value": {"kvlistValue": {"values": [
                        {"key": "a", "value": {"boolValue": True}},
                    ]}}},
                ],
                "traceId": "ab",
            }
        ),
        ("boom 5", STAMP, "ERROR", {"n": "5", "o.a": "true", "traceId": "ab"}, "boom <*>"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("format", "line", "expected"), RECORDS)
def test_a_record_of_each_format_is_read(format, line, expected):
    parser = LineParser(format, reference=STAMP)
    assert parser.parse(line.encode()) == expected
    assert parser.parse(line.encode()) == expected  # by what was remembered of the first
    assert parser.lines_unparsed == 0


@pytest.mark.parametrize(("format", "line", "expected"), RECORDS)
def test_auto_finds_the_format_and_keeps_it(format, line, expected):
    parser = LineParser(reference=STAMP)
    for count in range(20):
        assert parser.chosen is None, count
        assert parser.parse(line.encode()) == expected
        parser.parse(b"")  # does not count
    assert parser.chosen == format
    for _ in range(50):
        parser.parse(b"something else")
    assert parser.chosen == format
    assert parser.unparsed[f"not {format}"] == 50


def test_a_banner_does_not_hide_the_format():
    parser = LineParser()
    for line in [b"Starting the server ..."] * 15 + [b'{"msg":"up"}'] * 5:
        parser.parse(line)
    assert parser.chosen == "json"


def test_one_odd_line_does_not_make_a_format():
    parser = LineParser()
    for line in [b'{"msg":"up"}'] + [b"plain words"] * 19:
        parser.parse(line)
    assert parser.chosen == "raw"


@pytest.mark.parametrize("format", ["json", "logfmt", "syslog", "cri", "docker", "otlp"])
def test_a_line_that_does_not_fit_is_read_as_raw_and_counted_once(format):
    parser = LineParser(format)
    record = parser.parse(b"2026-01-02 03:04:05 WARN plain words")
    assert (record.body, record.severity) == ("plain words", "WARN")
    assert parser.unparsed == {f"not {format}": 1}
    parser.parse(b"plain words")
    assert parser.lines_unparsed == 2


def test_an_envelope_gives_all_its_records():
    logs = [
        {"observedTimeUnixNano": STAMP, "timeUnixNano": "0", "body": {"kvlistValue": {"values": [
            {"key": "msg", "value": {"stringValue": "one"}},
            {"key": "q", "value": {"doubleValue": 1.5}},
        ]}}},
        {"timeUnixNano": STAMP, "severityText": "warn", "body": {"stringValue": "two"}},
    ]  # fmt: skip
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scope = {"scope": {"name": "lib"}, "logRecords": logs}
    line = json.dumps({"resourceLogs": [{"resource": service, "scopeLogs": [scope]}]}).encode()
    outer = {"service.name": "shop", "scope.name": "lib"}
    expected = [
        ("one", STAMP, None, {**outer, "q": "1.5"}, None),
        ("two", STAMP, "WARN", outer, None),
    ]
    parser = LineParser()
    assert parser.parse_all(line) == expected
    assert parser.lines_unparsed == 0
    assert parser.parse(line) == expected[0]
    assert parser.unparsed == {"several records": 1}
    assert parser.parse_all(b'{"resourceLogs":[]}') == []


def test_keys_that_the_user_names_are_taken():
    parser = LineParser("json", body_key="a.text", time_key="when", severity_key="grade")
    line = b'{"msg":"no","a":{"text":"yes"},"when":1700000000123,"ts":1,"grade":"E","level":"info"}'
    fields = {"msg": "no", "ts": "1", "level": "info"}
    assert parser.parse(line) == ("yes", STAMP, "ERROR", fields, None)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        *((key, value, name) for key, values in {
            "severity_number": {1: "TRACE", 5: "DEBUG", 12: "INFO", 13: "WARN", 17: "ERROR",
                                24: "FATAL", 0: None, 25: None},
            "level": {0: "FATAL", 3: "ERROR", 4: "WARN", 6: "INFO", 7: "DEBUG", 10: "TRACE",
                      20: "DEBUG", 30: "INFO", 60: "FATAL", 9: None, 1e300: None, -1: None},
            "levelno": {10: "DEBUG", 20: "INFO", 50: "FATAL"},
        }.items() for value, name in values.items()),
        ("level", "Critical", "FATAL"), ("level", "w", None), ("level", "W", "WARN"),
        ("level", "5", "INFO"), ("level", True, None), ("level", "loud", None),
    ],
)  # fmt: skip
def test_severities_have_one_set_of_names(key, value, expected):
    line = json.dumps({"msg": "x", key: value}).encode()
    assert LineParser("json").parse(line).severity == expected


@pytest.mark.parametrize("value", ["NaN", "1e300", "-5", "0", "Infinity", "12", '"soon"', "true",
                                   "[]", "null", "9" * 40, '"0000-00-00"'])  # fmt: skip
def test_a_time_out_of_range_is_none(value):
    parser = LineParser("json")
    record = parser.parse(f'{{"msg":"x","time":{value}}}'.encode())
    assert (record.body, record.time) == ("x", None)
    assert parser.unparsed == {"no time": 1}
