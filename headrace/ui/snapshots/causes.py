"""What the input watermark of a computation waits for, as far as a commit tells it without the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, INJECTOR, Member
from headrace.lowlevel.checkpoint.manifest.manifest import oldest_by_consumer
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.reporting.figures import shown_time


class Cause(NamedTuple):
    """Unfinished work before a computation."""

    timestamp: int
    """The watermark cannot pass it, microseconds UTC."""
    distance: int
    """Computations between the work and the step."""
    text: str


def _time_text(timestamp: int) -> str:
    return "the beginning of time" if timestamp <= MIN_TIMESTAMP else shown_time(timestamp)


class Causes:
    """Finds the causes in one commit.

    Args:
        commit: The commit.
        holder_of: Returns the holder of a computation's output watermark, as text; empty if there is none.
    """

    def __init__(self, commit: Manifest, holder_of: Callable[[str], str]) -> None:
        self._commit, self._holder_of = commit, holder_of
        self._pending = oldest_by_consumer(commit.pending)
        self._makers = commit.topology.makers()

    def text(self, step: str) -> str:
        """The oldest cause of a computation's input watermark, of equally old ones the nearest; empty for none."""
        causes = [cause for cause in self._causes_before(step) if cause.timestamp < MAX_TIMESTAMP]
        if not causes:
            return ""
        cause = min(causes)
        if cause.timestamp > self._commit.input_watermarks.get(step, MIN_TIMESTAMP):
            return f"nothing: it moves with the next epoch, to {cause.text}"
        return cause.text

    def _causes_before(self, step: str) -> Iterator[Cause]:
        members = self._commit.topology.of_kind(COMPUTATION)
        waiting, seen = [(step, 0)], {step}
        for name, distance in waiting:
            if name in self._pending:
                oldest = self._pending[name]
                yield Cause(oldest, distance, f"records on their way to {name}, the oldest of {_time_text(oldest)}")
            for maker in self._upstream(members[name]) if name in members else ():
                if maker.kind == INJECTOR:
                    watermark = self._commit.injector_watermarks.get(maker.name, MIN_TIMESTAMP)
                    yield Cause(watermark, distance, f"source {maker.name}, which is at {_time_text(watermark)}")
                    continue
                if (holder := self._commit.holders.get(maker.name)) is not None:
                    text = f"step {maker.name}: {self._holder_of(maker.name)}"
                    yield Cause(holder.timestamp, distance, text)
                if maker.name not in seen:
                    seen.add(maker.name)
                    waiting.append((maker.name, distance + 1))

    def _upstream(self, member: Member) -> list[Member]:
        """The injectors and computations whose records come to a member, through inline computations."""
        found: dict[str, Member] = {}
        streams = list(member.inputs)
        seen = set(streams)
        for stream in streams:
            for maker in self._makers.get(stream, ()):
                if maker.kind in (INJECTOR, COMPUTATION):
                    found[maker.name] = maker
                else:
                    streams += [each for each in maker.inputs if each not in seen]
                    seen.update(maker.inputs)
        return list(found.values())
