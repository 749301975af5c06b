"""q10: events as lines of files, a few for each window."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.nexmark.query import Q10
from benchmarks.nexmark.settings import SHARDS, WINDOW

_LOGGED = Q10.columns[1:]


def log_to_files(beam, events, folder):
    """Puts out the names of the files. A file that is written twice has the same lines."""

    def write(group, window=beam.DoFn.WindowParam):
        shard, lines = group
        path = Path(folder, f"{window.start.micros}-{shard}.log")
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    lines = events | "Shard and line" >> beam.Map(
        lambda event: (event["time"] % SHARDS, json.dumps([event[field] for field in _LOGGED]))
    )
    windowed = lines | beam.WindowInto(beam.window.FixedWindows(WINDOW))
    return windowed | beam.GroupByKey() | "Write file" >> beam.Map(write)
