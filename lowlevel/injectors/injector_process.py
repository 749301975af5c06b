"""A process that hands records and watermarks to a distributed injector (MillWheel paper §5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.lowlevel.injectors.handover_log import Handover, HandoverEntry, HandoverError, check_name, notify
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage.object_store import Location


class InjectorProcess:
    """A process that hands records to a `ProcessInjector`. It needs only the storage that both share.

    A hand-over is atomic, and contains records together with their watermark. A process that was killed is opened again
    under its name. It continues from `progress`, or writes again, with ids, the records of which it is not certain. An
    older process with the same name can then hand over nothing more.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> process = InjectorProcess.open(place, "host-a").write([("britney", 1), ("carly", 2)], progress="line 2")
    >>> InjectorProcess.open(place, "host-a").progress
    'line 2'
    >>> process.advance(3)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.injectors.handover_log.HandoverError: process 'host-a' was started again elsewhere; ...
    """

    def __init__(self, handover: Handover, name: str) -> None:
        """For `open`: a process that has handed nothing over yet."""
        self._handover = handover
        self._pipe = handover.pipe
        self._name = name
        self._number = handover.last(name)
        self._last = handover.entry(name, self._number) or HandoverEntry()

    @classmethod
    def open(cls, place: Location, name: str, coder: Coder | None = None) -> Self:
        """Register the process, and write an entry, so that older processes with the name can hand over nothing more.

        Args:
            place: The directory, URL or store of the injector.
            name: One of the names that the injector expects.
            coder: Coder for lists of values, the same as the injector's.

        Raises:
            HandoverError: The name is invalid or not expected, or the process has closed.
        """
        handover = Handover(place, coder or PickleCoder())
        expected = handover.expected()
        if expected is not None and check_name(name) not in expected:
            raise HandoverError(
                f"no process {name!r} is expected at {handover.store.describe()} (expected: {', '.join(expected)}); "
                "correct the name, or expect it in the ProcessInjector"
            )
        handover.register(check_name(name))
        process = cls(handover, name)
        process._enter(HandoverEntry(process.watermark, progress=process.progress))
        return process

    @property
    def watermark(self) -> int:
        """The low watermark handed over last, microseconds UTC."""
        return self._last.watermark

    @property
    def progress(self) -> str:
        """The newest progress note; empty if there is none."""
        return self._last.progress

    def write(
        self,
        records: Iterable[tuple[object, int]],
        ids: Sequence[bytes] | None = None,
        watermark: int | None = None,
        progress: str | None = None,
    ) -> Self:
        """Hand over records, a watermark and a progress note atomically.

        Args:
            records: (value, timestamp in microseconds UTC) of each record. The order of records with one key is kept.
            ids: One for each record, if the injector has `record_ids`.
            watermark: The low watermark after the records, microseconds UTC; None leaves it unchanged.
            progress: A note of how far the process has read, for a restart; None leaves it unchanged.

        Raises:
            HandoverError: The hand-over is refused; nothing of it counts.
            StoreError: The store failed; the records may or may not have been handed over.
        """
        rows = list(records)
        if ids is not None and len(ids) != len(rows):
            raise HandoverError(f"process {self._name!r} gives {len(ids)} ids for {len(rows)} records; give one each")
        watermark, progress = self._later(watermark), self.progress if progress is None else progress
        batch = Batch([value for value, _ in rows], [timestamp for _, timestamp in rows], ids)
        path = self._handover.save(self._name, self._number + 1, batch) if rows else ""
        self._enter(HandoverEntry(watermark, len(rows), path, progress=progress))
        return self

    def advance(self, watermark: int) -> Self:
        """Declare that no record before `watermark` (microseconds UTC) follows. See `write` for errors.

        Raises `HandoverError` for a watermark before the last one.
        """
        return self.write((), watermark=watermark)

    def close(self) -> None:
        """Declare that the input of this process has ended. The process then no longer holds the watermark."""
        self._enter(HandoverEntry(self.watermark, closed=True, progress=self.progress))

    def _later(self, watermark: int | None) -> int:
        if watermark is None:
            return self.watermark
        if watermark < self.watermark:
            raise HandoverError(
                f"the watermark of process {self._name!r} is {self.watermark} and cannot go back to {watermark}; "
                "records behind it may be written, as late ones"
            )
        return watermark

    def _enter(self, entry: HandoverEntry) -> None:
        if self._last.closed:
            raise HandoverError(f"process {self._name!r} has closed its input; nothing can be handed over after that")
        if not self._handover.enter(self._name, self._number + 1, entry):
            raise HandoverError(
                f"process {self._name!r} was started again elsewhere; this one was replaced and can hand nothing over"
            )
        self._number, self._last = self._number + 1, entry
        if self._pipe is not None:
            notify(self._pipe, self._name)
