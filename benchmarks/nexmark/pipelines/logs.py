"""q10: events as lines of files, a few for each window."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.settings import WINDOW


def log_to_files(beam, by, events, folder):
    """Puts out the names of the files. A file that is written twice has the same lines."""

    def write(group, window=beam.DoFn.WindowParam):
        shard, lines = group
        path = Path(folder, f"{window.start.micros}-{shard}.log")
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    windowed = events | beam.WindowInto(beam.window.FixedWindows(WINDOW))
    return by.grouped_lines(windowed) | "Write file" >> beam.Map(write)
