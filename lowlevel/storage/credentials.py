"""Credentials of object stores that a function of the program gives, again and again as they run out.

The function is named by import path, so that each process of a run calls its own: the driver, and each worker. It is
called with the bucket or container and returns the fields of one kind of `KINDS` with the time at which they run out.
A process asks once for each bucket, and again when a third of the lifetime is left, at the latest five minutes before
the end. If the function fails then, the credentials that are there serve until they have run out.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import NamedTuple
from urllib.parse import unquote

from headrace.lowlevel.storage.places import hidden

VARIABLE = "HEADRACE_CREDENTIALS"
"""Environment variable with the import path, for processes and commands that are given none."""
KINDS: Mapping[str, tuple[frozenset[str], ...]] = {
    "s3": (
        frozenset({"access_key_id", "secret_access_key"}),
        frozenset({"access_key_id", "secret_access_key", "token"}),
    ),
    "gs": (frozenset({"token"}),),
    "azure": (frozenset({"access_key"}), frozenset({"sas_token"}), frozenset({"token"})),
}
"""Kind of store -> the sets of fields that a function may return for it, as obstore names them."""
_EXPIRY = "expires_at"
_SCHEMES = {"s3": "s3", "gs": "gs", "gcs": "gs", "abfss": "azure", "abfs": "azure", "az": "azure"} | dict.fromkeys(
    ("azure", "adl"), "azure"
)
_LONGEST_REST = timedelta(minutes=5)
"""What is left of credentials at most when new ones are asked for."""
_PAUSE = timedelta(seconds=5)
"""Least time between two failed attempts to renew credentials that still serve."""
_LEAST_SECRET = 6
"""Shorter values are not looked for in texts."""
_IN_USE: dict[str, str | None] = {"hook": None}
_log = logging.getLogger(__name__)


class HookError(Exception):
    """The function failed; the text names it, the place and the remedy."""


class Credential(NamedTuple):
    """What the function returned."""

    fields: Mapping[str, str]
    expires_at: datetime | None
    """UTC; None for credentials that do not run out."""
    received_at: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether they have run out."""
        return self.expires_at is not None and now >= self.expires_at

    def is_due(self, now: datetime) -> bool:
        """Whether new ones should be asked for."""
        if self.expires_at is None:
            return False
        return self.expires_at - now < min(_LONGEST_REST, (self.expires_at - self.received_at) / 3)

    def for_obstore(self) -> dict[str, object]:
        """The fields with the end, as obstore takes them."""
        return {**self.fields, _EXPIRY: self.expires_at}


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Credentials:
    """The credentials of one bucket or container in this process. It is safe to use from several threads."""

    hook: str
    """Import path, `module:function`."""
    place: str
    """URL of the bucket or container, which the function is called with."""
    now: Callable[[], datetime] = _utc_now
    _lock: Lock = field(default_factory=Lock)
    _last: Credential | None = None
    _not_before: datetime | None = None
    """When a failed renewal is tried again."""

    def current(self) -> Credential:
        """Credentials that have not run out. Raises `HookError` if the function gives none."""
        with self._lock:
            now = self.now()
            if self._last is None or self._last.is_due(now):
                self._renew(now)
            assert self._last is not None, "renewed"
            return self._last

    def for_obstore(self) -> dict[str, object]:
        """The credential provider of an obstore store."""
        return self.current().for_obstore()

    def _renew(self, now: datetime) -> None:
        serves = self._last is not None and not self._last.is_over(now)
        if serves and self._not_before is not None and now < self._not_before:
            return
        try:
            self._last = self._asked()
            _known_secrets.update(value for value in _secrets(self._last) if len(value) >= _LEAST_SECRET)
        except HookError as error:
            if not serves:
                raise
            self._not_before = now + _PAUSE
            _log.warning(
                "%s; the credentials that are there serve until %s", error, self._last and self._last.expires_at
            )

    def _asked(self) -> Credential:
        function = self._function()
        try:
            answer = function(self.place)
            given = dict(answer) if isinstance(answer, Mapping) else None
        except (Exception, SystemExit) as error:
            raise self._wrong(f"raised {_shown(error)}; correct it, or what it asks") from None
        if given is None:
            raise self._wrong(f"returned a {type(answer).__name__}; {self._remedy()}")
        ends = given.pop(_EXPIRY, None)
        fields = {name: value for name, value in given.items() if value is not None}
        if frozenset(fields) not in KINDS[kind_of(self.place)] or not all(isinstance(v, str) for v in fields.values()):
            raise self._wrong(f"returned {sorted(map(str, fields)) or 'nothing'}; {self._remedy()}")
        if unfit := next((name for name, value in fields.items() if not is_fit(value)), None):
            raise self._wrong(f"returned {unfit} {UNFIT}")
        return Credential(fields, self._end(ends), self.now())

    def _end(self, ends: object) -> datetime | None:
        """The time in UTC at which credentials run out. Raises `HookError` for none that can be, or that is over."""
        if ends is None:
            return None
        if not isinstance(ends, datetime) or ends.utcoffset() is None:
            raise self._wrong("returned an expires_at without a time zone; give a datetime in UTC, or None for no end")
        if ends <= self.now():
            raise self._wrong(f"returned credentials that ran out at {ends.isoformat()}; have it ask for new ones")
        try:
            return ends.astimezone(UTC)
        except OverflowError:
            # Behind the last year that there is.
            return None

    def _function(self) -> Callable[[str], object]:
        module, _, name = self.hook.partition(":")
        try:
            found: object = importlib.import_module(module)
        except (Exception, SystemExit) as error:
            raise self._wrong(
                f"cannot be imported in this process ({_shown(error)}); send its module with the program"
            ) from None
        try:
            for part in name.split("."):
                found = getattr(found, part)
        except AttributeError as error:
            raise self._wrong(f"is not there ({_shown(error)}); name a function of the module") from None
        if not callable(found):
            raise self._wrong("is no function; name one")
        return found

    def _remedy(self) -> str:
        forms = " or ".join(" and ".join(sorted(form)) for form in KINDS[kind_of(self.place)])
        return f"return a dict with {forms}, all text, and with expires_at"

    def _wrong(self, what: str) -> HookError:
        return HookError(f"the credentials of {self.place} cannot be had: {self.hook} {what}")


UNFIT = "with a blank, a line break or no ASCII in it, or empty; return the text without it, such as text.strip()"
"""What is wrong with a value that is not fit, and what to do."""
_FIT = re.compile("[!-~]+")
_LONGEST_TEXT = 300
"""Characters of an error of the program that are shown."""


def is_fit(value: str) -> bool:
    r"""Whether text can be a credential: all stores send these in lines of HTTP.

    >>> is_fit("wJalr/X+9="), is_fit("wJalr/X+9=\n"), is_fit("")
    (True, False, False)
    """
    return _FIT.fullmatch(value) is not None


def _shown(error: BaseException) -> str:
    """Class and text of an error of the program, without credentials: hidden while they are whole, then shortened."""
    return f"{type(error).__name__}: {without_secrets(hidden(str(error))):.{_LONGEST_TEXT}}"


def _secrets(credential: Credential) -> Iterator[str]:
    """The values, and the signature in one of Azure, quoted and unquoted."""
    yield from credential.fields.values()
    for part in credential.fields.get("sas_token", "").split("&"):
        name, _, value = part.partition("=")
        if name == "sig":
            yield from (value, unquote(value))


_known_secrets: set[str] = set()
"""Values that functions have returned in this process."""


def without_secrets(text: str) -> str:
    """A text with `***` in place of all credentials that this process was given."""
    # A copy, as other threads add to the set; the longest first, as one may be the beginning of another.
    for secret in sorted(tuple(_known_secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def use(hook: str | None) -> None:
    """From now on this process asks this function, for stores and file systems that it opens; None for the variable.

    Raises ValueError for text that is no import path.
    """
    _IN_USE["hook"] = hook if hook is None else checked(hook)


@contextmanager
def using(hook: str | None) -> Iterator[None]:
    """`use` the function until the block ends. Raises as it does."""
    use(hook)
    try:
        yield
    finally:
        use(None)


def hook_in_use() -> str | None:
    """The import path of the function; None if there is none."""
    return _IN_USE["hook"] or os.environ.get(VARIABLE) or None


def checked(hook: object) -> str:
    """The import path. Raises ValueError for other text, and for a function itself, which other processes have not.

    >>> checked("company.storage:keys")
    'company.storage:keys'
    """
    if not isinstance(hook, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", hook):
        raise ValueError(f"credentials is {hook!r}; name a function by module:function, such as company.storage:keys")
    return hook


def credentials_of(place: str, hook: str | None) -> Credentials | None:
    """The credentials of the store of a URL; None for a place without a function, or that has no credentials.

    >>> credentials_of("s3://bucket/a/b", "company.storage:keys").place, credentials_of("/data", "company.storage:keys")
    ('s3://bucket', None)
    """
    scheme, mark, rest = place.partition("://")
    if hook is None or not mark or scheme not in _SCHEMES:
        return None
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority and _SCHEMES[scheme] != "azure":
        # The URL has its own, or says that there are none.
        return None
    return _shared(checked(hook), f"{scheme}://{authority}")


@lru_cache(256)
def _shared(hook: str, place: str) -> Credentials:
    return Credentials(hook, place)


def kind_of(place: str) -> str:
    """The kind of store of a URL that has credentials: s3, gs or azure."""
    return _SCHEMES[place.partition("://")[0]]
