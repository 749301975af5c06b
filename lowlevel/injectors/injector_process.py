"""One process of a distributed injector: hands records and watermarks over (MillWheel paper §5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from headrace.lowlevel.coder import Coder, PickleCoder
from headrace.lowlevel.handover import Entry, Handover, HandoverError, Place, check_name
from headrace.lowlevel.record import Batch


class InjectorProcess:
    """The side of `ProcessInjector` that lives in a process of its own and needs nothing but the shared place.

    A hand-over is one write: it happened or it did not, and its records come with their watermark. A process that was
    killed opens under its name again and goes on from `progress`, or writes again what it is not sure of, with ids.
    Whoever had the name before can hand over nothing more.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> process = InjectorProcess(place, "host-a").write([("britney", 1), ("carly", 2)], progress="line 2").advance(2)
    >>> InjectorProcess(place, "host-a").progress
    'line 2'
    >>> process.advance(3)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.handover.HandoverError: process 'host-a' was started again elsewhere; ...

    Args:
        place: Where the injector looks.
        name: One of the names that the injector expects.
        coder: How lists of values become bytes; the same as the injector's.

    Raises `HandoverError` if the name is not expected or has closed.
    """

    def __init__(self, place: Place, name: str, coder: Coder | None = None) -> None:
        self._handover = Handover(place, coder or PickleCoder())
        self._name = check_name(name)
        expected = self._handover.expected()
        if expected is not None and name not in expected:
            raise HandoverError(
                f"no process {name!r} is expected at {self._handover.store.describe()} (expected: "
                f"{', '.join(expected)}); correct the name, or expect it in the ProcessInjector"
            )
        self._handover.register(name)
        self._number = self._handover.last(name)
        self._last = self._handover.entry(name, self._number) or Entry()
        if self._last.closed:
            raise HandoverError(f"process {name!r} has closed its input; nothing can be handed over after that")
        # Takes the next number away from whoever has the name now.
        self._enter(Entry(self._last.watermark, progress=self._last.progress))

    @property
    def watermark(self) -> int:
        """The low watermark that it has handed over, microseconds UTC."""
        return self._last.watermark

    @property
    def progress(self) -> str:
        """The note that came with the newest hand-over that had one."""
        return self._last.progress

    def write(
        self,
        records: Iterable[tuple[object, int]],
        ids: Sequence[bytes] | None = None,
        watermark: int | None = None,
        progress: str | None = None,
    ) -> Self:
        """Hand over records (value, timestamp in microseconds UTC), with what comes after them, in one write.

        Args:
            records: In order; records of one key keep it.
            ids: One a record, if the injector has `record_ids`.
            watermark: The low watermark after them; None leaves it.
            progress: A note of how far the process is, for when it is started again; None leaves it.

        Raises `HandoverError`, and `StoreError` if it is not known whether they were handed over.
        """
        rows = list(records)
        if ids is not None and len(ids) != len(rows):
            raise HandoverError(f"process {self._name!r} gives {len(ids)} ids for {len(rows)} records; give one each")
        watermark, progress = self._later(watermark), self.progress if progress is None else progress
        batch = Batch([value for value, _ in rows], [timestamp for _, timestamp in rows], ids)
        path = self._handover.save(self._name, self._number + 1, batch) if rows else ""
        self._enter(Entry(watermark, len(rows), path, progress=progress))
        return self

    def advance(self, watermark: int) -> Self:
        """Say that no record before `watermark` (microseconds UTC) comes any more. It cannot go back."""
        return self.write((), watermark=watermark)

    def close(self) -> None:
        """Say that there is nothing more: the process does not hold the watermark any longer."""
        self._enter(Entry(self.watermark, closed=True, progress=self.progress))

    def _later(self, watermark: int | None) -> int:
        if watermark is None:
            return self.watermark
        if watermark < self.watermark:
            raise HandoverError(
                f"the watermark of process {self._name!r} is {self.watermark} and cannot go back to {watermark}; "
                "records behind it may be written, as late ones"
            )
        return watermark

    def _enter(self, entry: Entry) -> None:
        if self._last.closed:
            raise HandoverError(f"process {self._name!r} has closed its input; nothing can be handed over after that")
        if not self._handover.enter(self._name, self._number + 1, entry):
            raise HandoverError(
                f"process {self._name!r} was started again elsewhere; this one was replaced and can hand nothing over"
            )
        self._number, self._last = self._number + 1, entry
