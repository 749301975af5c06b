"""Arguments that all readers of files share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.filetimes import FileTimeOf
from headrace.sdk.io.timestamps import TimestampOf


class OtherReadOptions(TypedDict, total=False):
    """Keyword arguments of `FileSource`, which says what they mean, for readers with a `validate` of their own."""

    timestamp: TimestampOf
    max_delay: DurationTypes | None
    continuous: bool
    interval: float
    file_time: FileTimeOf | None
    until: Callable[[Sequence[str]], bool] | None
    expected: Callable[[Sequence[str]], Iterable[str]] | None


class ReadOptions(OtherReadOptions, total=False):
    """All keyword arguments of `FileSource`."""

    validate: bool
