"""Removal of credentials from URLs, for messages and logs."""

from __future__ import annotations

import re

_URL = re.compile(
    r"""
    \b([A-Za-z][A-Za-z0-9+.-]*://)
    ((?: [^\s'"<>`:,;.)] | '(?=\w) | [:,;.)](?=[^\s'"<>`]) )*)    # not the punctuation behind it
    """,
    re.VERBOSE,
)
_USER = re.compile(
    r"""
      [^/?\#@[]*@                              # user@, user:password@
    | [^/?\#@:[]*:(?!\d+(?:[/?\#]|$)).*@       # a password with a slash, question mark or @ in it; a port is none
    """,
    re.VERBOSE,
)
_HIDDEN = "***"


def hidden(text: str) -> str:
    """A text with `***` in place of users, passwords, fragments and query values in its URLs.

    Scheme, host or bucket, path, and the names of query parameters stay readable.

    >>> hidden("cannot read s3://AKIA:wJalr/X@bucket/prefix: timed out")
    'cannot read s3://***@bucket/prefix: timed out'
    >>> hidden("https://account.blob.core.windows.net/there?sv=2024&sig=abc%3D"), hidden("http://localhost:9000/a@b")
    ('https://account.blob.core.windows.net/there?sv=***&sig=***', 'http://localhost:9000/a@b')
    """
    return _URL.sub(lambda found: found[1] + _without_keys(found[2]), text)


def _without_keys(rest: str) -> str:
    """The part of a URL behind the scheme, without credentials."""
    if (user := _USER.match(rest)) is not None:
        rest = f"{_HIDDEN}@{rest[user.end() :]}"
    place = re.match(r"[^?#]*", rest)
    assert place is not None, "nothing at all matches, too"
    marks_and_parts = re.findall(r"([?&;#])([^?&;#]*)", rest[place.end() :])
    return place[0] + "".join(mark + _without_value(part) for mark, part in marks_and_parts)


def _without_value(part: str) -> str:
    """A query parameter with its value hidden; a parameter without a value, or a fragment, is hidden as a whole."""
    name, sign, value = part.partition("=")
    return f"{name}={_HIDDEN}" if sign and value else _HIDDEN if name else ""
