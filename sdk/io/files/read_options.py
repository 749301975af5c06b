"""Types of the keyword arguments that all readers of files take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.files.file_times import FileTimeOf
from headrace.sdk.io.timestamps import TimestampOf


class OtherReadOptions(TypedDict, total=False):
    """Keyword arguments of `FileSource`, which documents them, for readers with a `validate` of their own."""

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
