"""The usual forms of a time stamp, as patterns whose groups are named like strptime's directives.

Groups: ``Y`` or ``y``, ``m`` or ``b``, ``d``, ``H``, ``M``, ``S``, ``p``, ``z``; ``f`` are the
digits of a fraction, ``ms`` whole milliseconds, ``e`` a number of seconds, milli-, micro- or
nanoseconds since 1970. ``t`` is the whole stamp without the brackets around it. Groups that tell
more than the time: ``L`` a letter for the severity, ``pid``, ``host``, ``label``.
"""

import re
from typing import NamedTuple

from tsmamba.errors import ParameterError

__all__ = ["FORMS", "Form", "custom_form"]

_MONTH = r"(?P<b>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
_WEEKDAY = r"(?i:mon|tue|wed|thu|fri|sat|sun)"
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
_FRACTION = r"(?:[.,](?P<f>\d{1,9})\d*)?"
# A space before a zone of two digits would take the minus and the number of "... -12 degrees".
_ZONE = r"(?P<z>(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)|[+-]\d\d)(?!\w))?"

_NO_FRACTION = "(?P<f>(?!))?"  # so that every form can be asked for one

_OPEN = r"""(?:[A-Z], )?[\[(<"']{0,2}"""
_LETTER = r"(?:(?P<L>[TDIWECF]) )?"
_CLOSE = r"""[\])>"']?"""


class Form(NamedTuple):
    """One form: at the head of a line, and where it may stand a little later, after what."""

    at_head: re.Pattern[str]
    later: re.Pattern[str] | None = None


def _form(stamp: str, *, later: bool = False, more: str = "") -> Form:
    letter = "" if "?P<L>" in more else _LETTER
    core = f"(?P<t>{stamp})" + ("" if "?P<f>" in stamp else _NO_FRACTION)
    return Form(
        re.compile(f"{_OPEN}{letter}{core}{_CLOSE}{more}"),
        re.compile(rf"(?<![\w.:/=-]){core}{_CLOSE}") if later else None,
    )


_NUMERIC_DATE = r"(?P<Y>\d{4})[-/.](?P<m>\d\d)[-/.](?P<d>\d\d)"
_ISO = _form(
    rf"{_NUMERIC_DATE}[Tt _](?P<H>\d\d):(?P<M>\d\d)(?::(?P<S>\d\d){_FRACTION})?{_ZONE}", later=True
)
# Logs of supercomputers as published for research: the first column says whether it is an alert.
_CLUSTER = Form(
    re.compile(
        r"(?P<label>\S+) (?P<t>(?P<e>\d{10}))" + _NO_FRACTION + r" \d{4}\.\d\d\.\d\d (?P<host>\S+) "
        r"(?:\d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.\d+|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d) \S+"
    )
)

FORMS = (
    _ISO,
    _CLUSTER,
    _form(
        rf"{_WEEKDAY} {_MONTH} +(?P<d>\d\d?) {_CLOCK}{_FRACTION}(?: [A-Z]{{3,4}})? (?P<Y>\d{{4}})",
        later=True,
    ),
    _form(rf"{_MONTH} +(?P<d>\d\d?) (?:(?P<Y>\d{{4}}) )?{_CLOCK}{_FRACTION}"),
    _form(
        rf"(?:{_WEEKDAY}, )?(?P<d>\d\d?)[ /-]{_MONTH}[ /-](?P<Y>\d{{4}})[ :]{_CLOCK}{_FRACTION}"
        rf"{_ZONE}",
        later=True,
    ),
    _form(
        r"(?P<Y>\d{4})(?P<m>\d\d)(?P<d>\d\d)[-T ](?P<H>\d\d?):(?P<M>\d\d?):(?P<S>\d\d?)"
        r"(?::(?P<ms>\d{1,3})|[.,](?P<f>\d{1,9})\d*)?"
    ),
    _form(
        rf"(?P<Y>\d{{4}})(?P<m>\d\d)(?P<d>\d\d)[-T ](?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d){_FRACTION}"
        rf"{_ZONE}(?!\w)"
    ),
    _form(
        r"(?P<y>\d\d)(?P<m>\d\d)(?P<d>\d\d) +(?P<H>\d\d?)(?P<colon>:?)(?P<M>\d\d)(?P=colon)"
        r"(?P<S>\d\d)(?!\d)"
    ),
    _form(rf"(?P<y>\d\d)/(?P<m>\d\d)/(?P<d>\d\d) {_CLOCK}{_FRACTION}"),
    _form(
        r"(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<Y>\d{4}),? (?P<H>\d\d?):(?P<M>\d\d)(?::(?P<S>\d\d))?"
        rf"{_FRACTION}(?: (?P<p>(?i:[ap]m)))?"
    ),
    _form(
        rf"(?P<m>\d\d)-(?P<d>\d\d) {_CLOCK}{_FRACTION}",
        more=r"(?: +(?P<pid>\d+) +\d+)?(?: (?P<L>[VDIWEFS])[ /])?",
    ),
    _form(rf"(?P<m>\d\d)\.(?P<d>\d\d) {_CLOCK}{_FRACTION}"),
    Form(
        re.compile(
            rf"(?P<L>[DIWEF])(?P<t>(?P<Y>\d{{4}})?(?P<m>\d\d)(?P<d>\d\d) {_CLOCK}{_FRACTION})"
            r"(?: +(?P<pid>\d+))?"
        )
    ),
    _form(
        r"(?P<e>\d{10}|\d{13}|\d{16}|\d{19})(?:\.(?P<f>\d{1,9})\d*)?(?![\w./-])",
        later=True,
    ),
    _form(rf"{_CLOCK}{_FRACTION}(?!\w)"),
    _form(rf"{_NUMERIC_DATE}(?![\w:]|[ _]\d\d:)"),
)

_DIRECTIVES = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d\d)",
    "m": r"(?P<m>\d\d?)",
    "b": _MONTH,
    "B": rf"{_MONTH}[a-z]*",
    "d": r" ?(?P<d>\d\d?)",
    "H": r" ?(?P<H>\d\d?)",
    "I": r" ?(?P<H>\d\d?)",
    "M": r"(?P<M>\d\d?)",
    "S": r"(?P<S>\d\d?)",
    "f": r"(?P<f>\d{1,9})\d*",
    "p": r"(?P<p>(?i:[ap]m))",
    "z": r"(?P<z>Z|[+-]\d\d(?::?\d\d)?)",
    "Z": r"[A-Za-z]{1,5}",
    "a": _WEEKDAY,
    "A": rf"{_WEEKDAY}[a-z]*",
    "%": "%",
}


def custom_form(time_format: str) -> Form:
    """Turn a format of strptime into a form.

    Parameters
    ----------
    time_format : str
        Directives ``%Y %y %m %b %B %d %H %I %M %S %f %p %z %Z %a %A %%`` and literal text; a space
        stands for one space or more. A zone by name (``%Z``) is read over.

    Returns
    -------
    form : Form
        At the head of a line or a little later.

    Raises
    ------
    ParameterError
        If a directive is unknown or stands twice, or if there is none.

    Examples
    --------
    >>> custom_form("%d.%m.%Y %H:%M:%S").at_head.match("24.12.2026 18:00:00 ok")["t"]
    '24.12.2026 18:00:00'
    """
    accepted = ", ".join(f"%{letter}" for letter in _DIRECTIVES)
    pieces: list[str] = []
    seen: set[str] = set()
    for directive, space, literal in re.findall(r"%(.?)|(\s+)|([^%\s]+)", time_format):
        if space or literal:
            pieces.append(r"\s+" if space else re.escape(literal))
            continue
        if directive not in _DIRECTIVES or directive in seen - {"%"}:
            message = (
                f"time_format={time_format!r}: %{directive} is unknown or stands twice; "
                f"accepted are {accepted}, each once"
            )
            raise ParameterError(message)
        seen.add(directive)
        pieces.append(_DIRECTIVES[directive])
    pattern = "".join(pieces)
    try:
        if not seen & {"d", "H", "I"}:
            raise re.error("no day and no hour")
        return _form(pattern, later=True)
    except re.error as error:  # two directives that mean one thing: %b and %B
        message = (
            f"time_format={time_format!r} is no time of a line ({error}); accepted: {accepted}"
        )
        raise ParameterError(message) from error
