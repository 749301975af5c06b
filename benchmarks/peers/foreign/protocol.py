"""What the benchmark and a framework's own process say to each other: a line of JSON each way, standard library only.

The process is asked to run one workload on one dataset, leaves the result as an Arrow file where it was told to, and
answers with the seconds that it took. It stays for the next line; the end of its input ends it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """One run. Times in microseconds.

    >>> job = Job("W1", "one.parquet", ["many/0.parquet"], 300_000_000, 60_000_000, 30_000_000, "result")
    >>> Job.read(job.line()) == job
    True
    """

    workload: str
    one: str
    """All events in one Parquet file: columns key, value, timestamp."""
    many: list[str]
    """The same events in a row of files, in order of arrival."""
    delay: int
    """No event is further behind the greatest event time before it."""
    window: int
    gap: int
    result: str
    """Where the result goes."""

    def line(self) -> str:
        """The job as a line to send."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, line: str) -> Job:
        """The job that a line is about."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class Answer:
    """How a run went: its seconds, or why there is no result.

    >>> Answer.read(Answer(1.5).line())
    Answer(seconds=1.5, error=None)
    """

    seconds: float = 0.0
    """From reading the files until the result is an Arrow table in the process's memory."""
    error: str | None = None

    def line(self) -> str:
        """The answer as a line to send."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, line: str) -> Answer:
        """The answer that a line gives."""
        return cls(**json.loads(line))
