"""Undocumented behaviour of obstore that the package relies on; check this module at each upgrade of obstore.

- `LocalStore.list` leaves out files whose names end in `#` and digits. If not, unfinished files would be listed.
- An error's text contains `(os error N)`, the system's error number. If not, messages would lack a remedy.
- `Debug source` in an error's text begins the part for obstore's developers. If not, messages would be longer.
- `builder error` and `http://` in an error's text mean that plain http was refused. If not, the remedy is missing.
- Client options have environment variables, see `environment_variable`, which are not read if options are given.
- The threads of obstore do not survive a fork, see `may_use_threads`. If they did, forked processes could be allowed.
"""

from __future__ import annotations

import os
import re
from functools import cache

TEMPORARY = "write#"
"""Prefix of the names of unfinished files; digits follow."""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_PLAIN_HTTP = "; the endpoint is not encrypted: give one with https, or set AWS_ALLOW_HTTP=true if that is meant"


def environment_variable(scheme: str, option: str) -> str:
    """The environment variable from which obstore takes a client option if no options are given.

    >>> environment_variable("s3", "allow_http")
    'AWS_ALLOW_HTTP'
    """
    prefix = "AWS" if scheme.startswith("s3") else "GOOGLE" if scheme == "gs" else "AZURE"
    return f"{prefix}_{option.upper()}"


def error_number(error: Exception) -> int | None:
    """The number of the operating system's error behind an exception; None if there is none."""
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else getattr(error, "errno", None)


def error_text(error: Exception) -> str:
    """The part of an error's text that is meant for users."""
    text = str(error)
    plain = "builder error" in text and "http://" in text
    return text.split("\n\nDebug source", 1)[0] + (_PLAIN_HTTP if plain else "")


def may_use_threads() -> bool:
    """Whether this process may call obstore; False in a process that was forked after the first call.

    The threads of obstore do not survive a fork, so a forked process would wait for them forever.
    """
    return _thread_owner() == os.getpid()


@cache
def _thread_owner() -> int:
    """Id of the process that called first. Processes forked from it inherit the cached id."""
    return os.getpid()
