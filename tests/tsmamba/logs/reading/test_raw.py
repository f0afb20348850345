from datetime import UTC, datetime

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.reading import LineParser

NOVEMBER = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * 10**9


def at(text: str) -> int:
    """Nanoseconds of an ISO time in UTC, to the microsecond."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000


# Line, time, severity, body, fields.
LINES = [
    (  # Android
        "03-17 16:13:38.811  1702  2395 D WindowManager: freeze token=a64 t7",
        "2027-03-17T16:13:38.811", "DEBUG", "WindowManager: freeze token=a64 t7", {"pid": "1702"},
    ),
    (
        "03-17 16:13:38.811 E/Zygote( 12): exit",
        "2027-03-17T16:13:38.811", "ERROR", "Zygote( 12): exit", {},
    ),
    (  # Apache
        "[Sun Dec 04 04:47:44 2005] [notice] worker init() ok",
        "2005-12-04T04:47:44", "INFO", "worker init() ok", {},
    ),
    (
        "[Sun Dec 04 04:47:44.250000 2005] [error] [client 10.0.0.7] no such file",
        "2005-12-04T04:47:44.250", "ERROR", "no such file", {"thread": "client 10.0.0.7"},
    ),
    (  # BGL
        "- 1117838570 2005.06.03 R02-M1 2005-06-03-15.42.50.675872 R02-M1 RAS KERNEL INFO parity",
        "2005-06-03T22:42:50", "INFO", "RAS KERNEL parity", {"host": "R02-M1", "label": "-"},
    ),
    (  # Thunderbird
        "- 1131566461 2005.11.09 dn228 Nov 9 12:01:01 dn228/dn228 crond[2915]: session closed",
        "2005-11-09T20:01:01", None, "crond[2915]: session closed", {"host": "dn228", "label": "-"},
    ),
    (  # HDFS
        "081109 203615 148 INFO dfs.DataNode$Responder: 1 for block blk_38 ends",
        "2008-11-09T20:36:15", "INFO", "dfs.DataNode$Responder: 1 for block blk_38 ends",
        {"pid": "148"},
    ),
    (  # HPC
        "13468 node-246 unix.hw state_change.unavailable 1077804742 1 Change: down",
        "2004-02-26T14:12:22", None, "node-246 unix.hw state_change.unavailable 1 Change: down",
        {},
    ),
    (  # Hadoop
        "2015-10-18 18:01:47,978 WARN [IPC Server handler 19 on 62270] org.a.Task: slow: 3",
        "2015-10-18T18:01:47.978", "WARN", "org.a.Task: slow: 3",
        {"thread": "IPC Server handler 19 on 62270"},
    ),
    (  # HealthApp: what follows the seconds are milliseconds, not a fraction
        "20171223-22:5:9:11|Step_LSC|30002312|onStep 3579",
        "2017-12-23T22:05:09.011", None, "Step_LSC onStep 3579", {},
    ),
    (  # OpenStack
        "nova-api.log 2017-05-16 00:00:00.008 25746 INFO nova.wsgi [req-3 - - -] 10.1.1.1 GET",
        "2017-05-16T00:00:00.008", "INFO", "nova-api.log nova.wsgi [req-3 - - -] 10.1.1.1 GET",
        {"pid": "25746"},
    ),
    (  # Proxifier
        "[10.30 16:49:06] chrome.exe - proxy:5070 open",
        "2026-10-30T16:49:06", None, "chrome.exe - proxy:5070 open", {},
    ),
    (  # Spark
        "17/06/09 20:10:40 INFO exec.Backend: Registered for [TERM, HUP]",
        "2017-06-09T20:10:40", "INFO", "exec.Backend: Registered for [TERM, HUP]", {},
    ),
    (  # Windows
        "2016-09-28 04:30:30, Info                  CBS    Loaded stack",
        "2016-09-28T04:30:30", "INFO", "CBS    Loaded stack", {},
    ),
    (  # Zookeeper
        "2015-07-29 17:41:44,747 - WARN  [Peer[myid=1]/0:0:2181:Elec@774] - time out: 3200",
        "2015-07-29T17:41:44.747", "WARN", "time out: 3200",
        {"thread": "Peer[myid=1]/0:0:2181:Elec@774"},
    ),
    (  # logging of Python
        "2024-01-01 00:00:00,123 - my.module - ERROR - no 7",
        "2024-01-01T00:00:00.123", "ERROR", "my.module no 7", {},
    ),
    (  # loguru
        "2024-01-01 00:00:00.123 | SUCCESS  | module:run:12 - done",
        "2024-01-01T00:00:00.123", "INFO", "module:run:12 - done", {},
    ),
    (  # Spring
        "2024-01-01T00:00:00.5+01:00  INFO 1234 --- [  main] c.e.App : Started",
        "2023-12-31T23:00:00.500", "INFO", "c.e.App : Started", {"pid": "1234", "thread": "main"},
    ),
    (  # logback without a date: the day nearest to the reference
        "23:59:00.001 [exec 1] DEBUG com.Bar - go",
        "2026-11-30T23:59:00.001", "DEBUG", "com.Bar - go", {"thread": "exec 1"},
    ),
    (  # Tomcat
        "02-Jan-2006 15:04:05.123 SEVERE [main] org.apache.Start failed",
        "2006-01-02T15:04:05.123", "ERROR", "org.apache.Start failed", {"thread": "main"},
    ),
    (  # PostgreSQL
        "2024-01-01 00:00:00.000 UTC [77] FATAL:  no such role",
        "2024-01-01T00:00:00", "FATAL", "no such role", {"pid": "77"},
    ),
    (  # nginx
        '2024/01/01 00:00:00 [crit] 12#0: *5 open() "/x" failed',
        "2024-01-01T00:00:00", "FATAL", '12#0: *5 open() "/x" failed', {},
    ),
    (  # access log
        '127.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326',
        "2000-10-10T20:55:36", None, '127.0.0.1 - bob "GET /a HTTP/1.0" 200 2326', {},
    ),
    (  # glog, klog
        'W1202 15:04:05.678901   12345 controller.go:123] "Late" key="x"',
        "2026-12-02T15:04:05.678901", "WARN", 'controller.go:123] "Late" key="x"', {"pid": "12345"},
    ),
    (  # Ruby
        "E, [2024-01-01T00:00:00.000001 #12]  ERROR -- : no luck",
        "2024-01-01T00:00:00.000001", "ERROR", "no luck", {"pid": "12"},
    ),
    (  # Airflow
        "[2024-01-01T00:00:00.123+0000] {task.py:1150} INFO - Executing",
        "2024-01-01T00:00:00.123", "INFO", "{task.py:1150} Executing", {},
    ),
    ("01/02/2024 03:04:05 PM ERROR x", "2024-01-02T15:04:05", "ERROR", "x", {}),
    ("1718000000.25 started", "2024-06-10T06:13:20.25", None, "started", {}),
    ("1718000000250 started", "2024-06-10T06:13:20.25", None, "started", {}),
    ("20240102T030405Z up", "2024-01-02T03:04:05", None, "up", {}),
    ("2016-12-31T23:59:60Z leap", "2017-01-01T00:00:00", None, "leap", {}),
    # A severity that is a word of the sentence is told and stays.
    ("2024-01-01 00:00:00 Error opening x", "2024-01-01", "ERROR", "Error opening x", {}),
    (
        "2024-01-01 00:00:00 connection ERROR from x",
        "2024-01-01", "ERROR", "connection ERROR from x", {},
    ),
    ("2024-01-01 00:00:00 5 sockets open", "2024-01-01", None, "5 sockets open", {}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "time", "severity", "body", "fields"), LINES)
def test_a_line_of_each_kind_is_taken_apart(line, time, severity, body, fields):
    parser = LineParser("raw", reference=NOVEMBER)
    record = parser.parse(line.encode())
    assert record == (body, at(time), severity, fields, None)
    assert parser.lines_unparsed == 0


@pytest.mark.parametrize(("line", "time", "severity", "body", "fields"), LINES)
def test_a_remembered_layout_gives_what_a_new_parser_gives(line, time, severity, body, fields):
    """Only digits differ from the lines before, so the layout is known."""
    parser = LineParser("raw", reference=NOVEMBER)
    turned = str.maketrans("3478", "4387")
    for text in (line, line.translate(turned), line):
        fresh = LineParser("raw", reference=NOVEMBER)
        parser._chooser._readers["raw"]._clock._near = NOVEMBER
        assert parser.parse(text.encode()) == fresh.parse(text.encode())


@pytest.mark.parametrize(
    ("line", "severity", "body"),
    [
        ("ERROR something failed", "ERROR", "something failed"),
        ("[warning] disk", "WARN", "disk"),
        ("WARNING:root:look out", "WARN", "root:look out"),
        ("error: no such file", "ERROR", "error: no such file"),
        ("information is missing", "INFO", "information is missing"),
        ("plain words", None, "plain words"),
    ],
)
def test_a_line_without_a_time_has_none_and_is_counted(line, severity, body):
    parser = LineParser("raw")
    assert parser.parse(line.encode()) == (body, None, severity, {}, None)
    assert parser.unparsed == {"no time": 1}


def test_a_date_in_a_message_is_not_its_time():
    parser = LineParser("raw")
    parser.parse(b"starting up")
    parser.parse(b"loading the plug-ins")
    record = parser.parse(b"certificate ends 2030-01-01 00:00:00")
    assert record == ("certificate ends 2030-01-01 00:00:00", None, None, {}, None)


def test_a_later_stamp_does_not_count_where_stamps_stand_at_the_head():
    parser = LineParser("raw")
    parser.parse(b"2026-01-02 03:04:05 INFO up")
    assert parser.parse(b"  expires 2030-01-01 00:00:00").time is None


def test_a_year_is_the_one_nearest_to_the_stamp_before():
    december = int(datetime(2005, 12, 31, 12, tzinfo=UTC).timestamp()) * 10**9
    parser = LineParser("raw", reference=december)
    lines = [b"Dec 31 23:59:59 a", b"Jan  1 00:00:01 b", b"May  1 00:00:00 c", b"Oct  1 00:00:00 d"]
    years = [datetime.fromtimestamp(parser.parse(line).time / 1e9, UTC).year for line in lines]
    assert years == [2005, 2006, 2006, 2006]


def test_the_29th_of_february_finds_its_year_or_is_unknown():
    for year, expected in ((2023, at("2024-02-29T01:00:00")), (2026, None)):
        reference = int(datetime(year, 12, 1, tzinfo=UTC).timestamp()) * 10**9
        parser = LineParser("raw", reference=reference)
        assert parser.parse(b"Feb 29 01:00:00 x").time == expected


def test_every_month_has_its_number():
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    parser = LineParser("raw")
    times = [parser.parse(f"05 {name} 2024 00:00:00 x".encode()).time for name in names]
    assert times == [at(f"2024-{month:02}-05") for month in range(1, 13)]


def test_stamps_without_a_zone_take_that_of_the_parser():
    parser = LineParser("raw", time_zone="Europe/Zurich")
    assert parser.parse(b"2024-07-01 12:00:00 x").time == at("2024-07-01T10:00:00")
    assert parser.parse(b"2024-01-01 12:00:00 x").time == at("2024-01-01T11:00:00")
    assert parser.parse(b"2024-01-01 12:00:00Z x").time == at("2024-01-01T12:00:00")


def test_a_stated_time_format_is_the_only_one():
    parser = LineParser("raw", time_format="%d.%m.%Y %H:%M:%S,%f")
    assert parser.parse(b"[03.02.2024 04:05:06,5] WARN x") == (
        "x", at("2024-02-03T04:05:06.5"), "WARN", {}, None,
    )  # fmt: skip
    assert parser.parse(b"2024-02-03 04:05:06 x").time is None


@pytest.mark.parametrize(
    "line",
    [b"0000-01-01 00:00:00 x", b"2024-13-01 00:00:00 x", b"2024-01-01 25:00:00 x",
     b"9999-01-01 00:00:00 x", b"1901-01-01 00:00:00 x", b"2024-01-01 00:00:00+99:99 x"],
)  # fmt: skip
def test_an_impossible_time_is_none_and_is_counted(line):
    parser = LineParser("raw")
    record = parser.parse(line)
    assert (record.body, record.time) == ("x", None)
    assert parser.unparsed == {"no time": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "format='xml' is unknown"),
        ({"time_format": "%Q"}, "%Q is unknown or stands twice"),
        ({"time_format": "%H %H"}, "%H is unknown or stands twice"),
        ({"time_format": "%b %B %d"}, "no time of a line"),
        ({"time_format": "today"}, "no time of a line"),
        ({"time_zone": "Mars/Olympus"}, "no IANA time zone"),
        ({"time_zone": 3}, "no IANA time zone"),
        ({"body_key": ""}, "body_key=''"),
        ({"format": "raw", "time_key": "t"}, "has no keys"),
        ({"reference": -1}, "reference=-1"),
        ({"max_bytes": 10}, "max_bytes=10"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        LineParser(**arguments)
