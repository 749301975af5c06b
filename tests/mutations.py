"""Faults that are put into a copy of the code one at a time: `python -m tests.mutations [WORD...]`.

For each fault, every place of its list of tests must fail with it; all places pass without. The words choose faults
whose name contains one of them. A test that is made cheaper must still find its faults, so run them then; that each
fault still has its place in the code is a test of `./dev test`. It takes about half an hour, on one core.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", ".*_cache", ".hypothesis")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault in one place of the code, and who finds it."""

    name: str
    path: str
    """The module, from the root of the project."""
    before: str
    """What stands there, once."""
    after: str
    found_by: tuple[str, ...]
    """Arguments of pytest, a run for each; every run fails."""

    def broken(self, text: str) -> str:
        """The module's text with the fault. Raises ValueError where the place is not found, or found twice."""
        if text.count(self.before) != 1:
            raise ValueError(
                f"{self.path} has {self.before!r} {text.count(self.before)} times; {self.name!r} needs one"
            )
        return text.replace(self.before, self.after)


_UNIT, _PROPERTIES, _FAULTS = "tests/unit", "tests/properties", "tests/faults"
MUTATIONS = (
    Mutation(
        "trigger kernel: the end of a window counts as passed one microsecond late",
        "sdk/operators/vectorized/trigger_kernel.py",
        "(lines[END] <= watermark) & (lines[END] > self.closed_until(watermark))",
        "(lines[END] < watermark) & (lines[END] > self.closed_until(watermark))",
        (f"{_PROPERTIES}/groupings/test_vectorized_panes.py", "tests/transcripts -k ends_of_periods"),
    ),
    Mutation(
        "segment compaction: accumulators that are objects are lost when segments become one",
        "sdk/operators/vectorized/state/window_accumulators.py",
        "        target.values = values\n",
        "",
        (f"{_PROPERTIES}/groupings/test_vectorized_grouping.py",),
    ),
    Mutation(
        "watermarks: holds of senders do not count",
        "lowlevel/watermarks/propagation.py",
        "            bounds.append(known.hold(sender, view.low))\n",
        "",
        (
            f"{_UNIT}/lowlevel/watermarks",
            f"{_PROPERTIES}/engine/test_percentile.py",
            f"{_UNIT}/runners/local/test_local_runner.py",
        ),
    ),
    Mutation(
        "commit and fence: a driver goes on though its seal did not get its place",
        "lowlevel/checkpoint/log/commit_log.py",
        "        if sealed:\n",
        "        if sealed or data:\n",
        (
            f"{_UNIT}/lowlevel/checkpoint/test_committer.py",
            f"{_FAULTS}/checkpoint/test_checkpoint_drivers.py",
        ),
    ),
    Mutation(
        "shuffle: keys are hashed without regard to case",
        "lowlevel/shuffle/partition_buffer.py",
        "hashed = (encoded, key_hash_of(encoded))",
        "hashed = (encoded, key_hash_of(encoded.lower()))",
        (f"{_UNIT}/lowlevel/shuffle/test_router.py",),
    ),
    Mutation(
        "state: keys are stored without regard to case",
        "lowlevel/coders/coder.py",
        "    digest.update(encoded_key)\n    return digest.digest()",
        "    digest.update(encoded_key.lower())\n    return digest.digest()",
        (f"{_UNIT}/lowlevel/coders",),
    ),
    Mutation(
        "shuffle: a key just where an interval begins goes to the one before",
        "lowlevel/intervals/interval_map.py",
        "import bisect_right\n",
        "import bisect_left as bisect_right\n",
        (f"{_UNIT}/lowlevel/intervals/test_interval_map.py",),
    ),
    Mutation(
        "delivery: what was committed is not delivered again after a crash",
        "runners/engine/driver/recovery.py",
        "        deliver(topology.sinks, state.epoch, state.receipts, self.activity)\n        # Only now",
        "        # Only now",
        (
            f"{_FAULTS}/crashes/test_crash_at_every_step.py",
            f"{_FAULTS}/crashes/test_kill_local.py",
            f"{_UNIT}/sdk/io/files/test_file_sink.py",
        ),
    ),
    Mutation(
        "side inputs: a gate takes an element whose side window has just ended",
        "sdk/operators/side_inputs/gate.py",
        "is_closed(windows.expires_at(side), self._before)",
        "is_closed(windows.expires_at(side) + 1, self._before)",
        (f"{_UNIT}/sdk/operators/side_inputs/test_gate.py", f"{_PROPERTIES}/engine/test_gate.py"),
    ),
    Mutation(
        "side inputs: views that nobody waits for any more stay",
        "sdk/operators/side_inputs/gate.py",
        "        if self._sweeping:\n",
        "        if self._sweeping and not self._arrived and not self._waiting:\n",
        (f"{_UNIT}/sdk/operators/side_inputs/test_gate.py",),
    ),
    Mutation(
        "fan-out of hot keys: late elements are not counted",
        "sdk/operators/combining/hot_key_fanout.py",
        "for namespace, number in arrivals.late]",
        "for namespace, number in arrivals.late[:0]]",
        (f"{_PROPERTIES}/groupings/test_hot_key_fanout.py",),
    ),
    Mutation(
        "fused stages: what comes of what was set apart stays behind",
        "sdk/operators/fusion/stage.py",
        "        while self._deferred:\n",
        "        for _ in [*self._deferred]:\n",
        (f"{_PROPERTIES}/functions/test_fusion.py",),
    ),
    Mutation(
        "expressions: a division by zero passes for a number",
        "sdk/expressions/arrow_functions.py",
        "return Vector(result.kind, result.values, either_unsure(result.unsure, zero))",
        "return Vector(result.kind, result.values, result.unsure)",
        (f"{_PROPERTIES}/functions/test_expressions.py",),
    ),
    Mutation(
        "timers: those of the two clocks change places",
        "lowlevel/processing/worker.py",
        "(TimeDomain.WALL_TIME, bundle.wall_time), (TimeDomain.LOW_WATERMARK, bundle.watermark)",
        "(TimeDomain.WALL_TIME, bundle.watermark), (TimeDomain.LOW_WATERMARK, bundle.wall_time)",
        (
            f"{_UNIT}/lowlevel/processing/test_worker.py",
            f"{_UNIT}/sdk/userstate/test_timers.py",
            f"{_PROPERTIES}/engine/test_state.py",
        ),
    ),
    Mutation(
        "sessions that only touch become one",
        "sdk/windows/standard_windows.py",
        "if run and window.start_us >= end:",
        "if run and window.start_us > end:",
        (f"{_PROPERTIES}/groupings/test_vectorized_sessions.py", "tests/transcripts -k only_touch"),
    ),
    Mutation(
        "duplicates: ids are forgotten without the slack of their injector",
        "lowlevel/state/id_journal.py",
        "journaled[name] = timestamp + slack",
        "journaled[name] = timestamp",
        (
            f"{_UNIT}/lowlevel/processing/test_worker.py",
            f"{_FAULTS}/attempts/test_duplicates.py",
            f"{_FAULTS}/crashes/test_kill_local.py",
        ),
    ),
    Mutation(
        "segments of an interval that is cut lose their last place",
        "lowlevel/state/segment.py",
        "(hashes <= np.uint64(stop - 1))",
        "(hashes < np.uint64(stop - 1))",
        (
            f"{_UNIT}/lowlevel/checkpoint/files/test_file_chain.py",
            f"{_UNIT}/lowlevel/state/test_segment.py",
        ),
    ),
    Mutation(
        "columns: sums of floats keep only the first places",
        "sdk/combinefns/exact_sums.py",
        "        left = left - pieces\n",
        "        left = left * 0\n",
        (f"{_UNIT}/sdk/combinefns/test_exact_sums.py",),
    ),
    Mutation(
        "columns: negative floats have the reverse order",
        "sdk/operators/combining/ordered_columns.py",
        "        flipped = np.where(bits < 0, bits ^ limits.max, bits)\n",
        "        flipped = bits\n",
        (f"{_UNIT}/sdk/operators/combining/test_ordered_columns.py",),
    ),
    Mutation(
        "columns: sums of decimals lose their sign",
        "sdk/operators/combining/ordered_columns.py",
        "    words = np.stack([numbers, numbers >> 63], 1).astype(np.int64)\n",
        "    words = np.stack([numbers, numbers * 0], 1).astype(np.int64)\n",
        (f"{_UNIT}/sdk/operators/combining/test_ordered_columns.py",),
    ),
    Mutation(
        "columns: the key None is the key of the first element",
        "lowlevel/columnar/key_columns.py",
        'column.dictionary_encode("encode")',
        "pc.fill_null(column, column[0]).dictionary_encode()",
        (f"{_PROPERTIES}/groupings/test_column_types.py",),
    ),
    Mutation(
        "columns: the sum of nothing is None",
        "sdk/operators/combining/aggregates.py",
        "            return kept.fill_null(zero(kept.type))\n",
        "            return kept\n",
        (f"{_PROPERTIES}/groupings/test_column_types.py", "tests/transcripts -k closing_fires_always"),
    ),
    Mutation(
        "columns: squares of floats are rounded",
        "sdk/operators/combining/moment_reducers.py",
        "        squares = lists_of_one(of_numbers(high)) if not low.any() else _lists_of_two(high, low)\n",
        "        squares = lists_of_one(of_numbers(high))\n",
        (f"{_UNIT}/sdk/operators/combining/test_moment_reducers.py",),
    ),
    Mutation(
        "columns: the first instant of a calendar window is in the one before",
        "sdk/windows/calendar.py",
        'np.searchsorted(starts, timestamps, "right")',
        'np.searchsorted(starts, timestamps, "left")',
        (f"{_UNIT}/sdk/windows/test_calendar.py",),
    ),
    Mutation(
        "columns: contents of another type are lost when tables meet",
        "sdk/operators/vectorized/state/window_table.py",
        "    values = objects_of([(accumulator,) if count else None for accumulator, count in held])\n",
        "    values = objects_of([None for accumulator, count in held])\n",
        (f"{_PROPERTIES}/groupings/test_vectorized_grouping.py",),
    ),
    Mutation(
        "columns: all elements count as taken by column",
        "sdk/operators/combining/combiner_lifting.py",
        "        self._taken.add(len(batch), by_column)\n",
        "        self._taken.add(len(batch), True)\n",
        (f"{_UNIT}/runners/engine/driver/test_step_metrics.py",),
    ),
    Mutation(
        "joins by time: rows that wait for a partner hold no watermark",
        "sdk/functions/time_joins.py",
        "            context.set_timer(_DUE, due, hold=hold if hold < NEVER else None)\n",
        "            context.set_timer(_DUE, due)\n",
        (f"{_PROPERTIES}/groupings/test_time_joins.py", f"{_UNIT}/sdk/transforms/schemas/test_time_joins.py"),
    ),
    Mutation(
        "joins by time: rows go as soon as they are late themselves",
        "sdk/functions/time_joins.py",
        "        freed = self.closes(row.time, later)\n",
        "        freed = self.closes(row.time)\n",
        (f"{_PROPERTIES}/groupings/test_time_joins.py", f"{_UNIT}/sdk/transforms/schemas/test_time_joins.py"),
    ),
)


def escapes(mutation: Mutation, copy: Path) -> list[str]:
    """The places of the list that do not find the fault in a copy of the project."""
    module = copy / mutation.path
    sound = module.read_text()
    module.write_text(mutation.broken(sound))
    try:
        return [each for each in mutation.found_by if not _fails(each, copy)]
    finally:
        module.write_text(sound)


def _fails(place: str, copy: Path) -> bool:
    """Whether tests fail. Raises RuntimeError where they could not be run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *place.split()]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    # As deep as `./dev test` goes.
    environment.pop("HEADRACE_SOAK", None)
    ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if ended.returncode > 1 or not re.search(r"\d+ (passed|failed|error)", ended.stdout):
        raise RuntimeError(f"{place} did not run: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.returncode == 1


def main(words: Sequence[str]) -> int:
    """Try the faults; the number of places that do not find theirs."""
    escaped = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=_LEFT_OUT)
        for each in MUTATIONS:
            if words and not any(word in each.name for word in words):
                continue
            missed = escapes(each, copy)
            escaped += len(missed)
            print(f"{each.name}: {'not found by ' + ', '.join(missed) if missed else 'found'}", flush=True)
    return escaped


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
