"""CPU against the size of the cache of decoded state, as in figure 16 of the paper: `python -m benchmarks.cache`.

Bundles go through the worker, their changes into a file of a checkpoint and into a copy on LMDB, all in this process,
so that its processor time is that of worker and storage together. What comes out must be the same for every size of the
cache. There are two kinds of programs:

- an ordinary one, whose state is a frozen dataclass that its records look at, and one in twenty replaces;
- one that promises to keep its state to itself: a table of numbers that its records change in place and that is read
  again when the watermark passes the end of a window.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, cast

import typer

from benchmarks.report import print_table, rounded, save
from headrace.lowlevel import Computation, Context, Record, Timer
from headrace.lowlevel.checkpoint import DeltaHeader, FileChain, write_deltas
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.state_cache import KeyStates, StateCache, _Entry
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import KeyRecords
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.runners.spark.statestore.store_cache import advance

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5)
"""Sizes of the cache, as shares of what all states take up."""
_WINDOW = 20
"""Epochs of a window; an epoch is one unit of event time."""
_FIELDS = (25, 250, 1000, 2500)
"""Numbers in a table: about 100 bytes, one kilobyte, four and ten."""
_LIMITS = (3, 30, 300)
"""Numbers in a profile."""


class Table(Computation):
    """Counts into a table of numbers; reports when the key's window ends."""

    private_state = True

    def __init__(self, fields: int) -> None:
        self.fields = fields

    def initial_state(self) -> object:
        return dict.fromkeys(range(self.fields), 1_000)

    def process_record(self, record: Record, context: Context) -> None:
        number = cast(int, record.value)
        cast("dict[int, int]", context.state)[number % self.fields] += number
        context.set_timer("end", record.timestamp // _WINDOW * _WINDOW + _WINDOW)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("sums", (context.key, timer.timestamp, sum(cast("dict[int, int]", context.state).values())))


@dataclass(frozen=True)
class Profile:
    """What is known of a key."""

    version: int
    name: str
    limits: tuple[float, ...]


class Profiles(Computation):
    """Reports the numbers that are above one of the key's limits; one in twenty replaces the profile."""

    def __init__(self, fields: int) -> None:
        self.fields = fields

    def initial_state(self) -> object:
        return Profile(0, "", ())

    def process_record(self, record: Record, context: Context) -> None:
        profile, number = cast(Profile, context.state), cast(int, record.value)
        if not profile.version:
            context.state = Profile(1, f"key {context.key}", tuple(250.5 + each for each in range(self.fields)))
        elif number % 20 == 0:
            context.state = replace(profile, version=profile.version + 1)
        if profile.limits and number > profile.limits[number % len(profile.limits)]:
            context.produce("sums", (context.key, record.timestamp, profile.version))


class ByRecency(StateCache):
    """For comparison: what was used least recently gives way, as in a cache that knows nothing of timers."""

    _clock = 0

    def _add(self, states: KeyStates, row: bytes, entry: _Entry, placed: bool) -> None:
        self._clock += 1
        entry.due = -self._clock
        super()._add(states, row, entry, placed=False)

    def _sweep(self) -> None:
        self._evictions = 0


@dataclass(frozen=True)
class Load:
    """How much is done. In each epoch half of the profiles or a fifth of the tables get a record.

    When a window ends the timer of every table fires.
    """

    keys: int
    epochs: int
    fields: int
    program: type[Table] | type[Profiles] = Table

    def epochs_of_records(self) -> list[dict[int, int]]:
        """For each epoch key -> number."""
        dice = random.Random(16)
        keys = range(self.keys)
        visited = self.keys // (2 if self.program is Profiles else 5)
        return [{key: dice.randrange(1000) for key in dice.sample(keys, visited)} for _ in range(self.epochs)]

    @property
    def state_bytes(self) -> int:
        """What a cache that holds every key's state counts as."""
        if self.program is Profiles:
            profile = Profile(1, "key 100", tuple(250.5 + each for each in range(self.fields)))
            kept, data = DecodedValues(1 << 40), Profiles.state_coder.encode(profile)
            kept.left_unchanged(data, profile)
            return kept.used * self.keys
        cache = StateCache(1 << 40)
        states = cache.of("sums", Table(self.fields), MIN_TIMESTAMP)
        assert states is not None
        table = Table(self.fields)
        state = table.initial_state()
        states.keep(b"row", table.state_coder.encode(state), state)
        return cache.used * self.keys


@dataclass
class Outcome:
    """Runs of one form."""

    cache: Callable[[], StateCache]
    seconds: list[float] = field(default_factory=list)
    """Processor time of each."""
    hits: float = 0.0
    """Share of the reads of state that found it decoded."""


def run(load: Load, outcome: Outcome, folder: Path) -> list[object]:
    """One run; what came out."""
    out: list[object] = []
    cache = outcome.cache()
    place = Keyed("sums", load.program(load.fields), {"in": str}, frozenset({"sums"}))
    keys = {key: (key_hash_of(encode_key(key)), encode_key(key)) for key in range(load.keys)}
    copy, store = LmdbStateStore(folder / "copy", 1 << 32), ObjectStore(str(folder / "checkpoint"))
    plan, watermark, records = FileChain(1, 0), MIN_TIMESTAMP, load.epochs_of_records()
    gc.collect()
    gc.freeze()  # As our workers do with what is there before the first record.
    started = time.process_time()
    for epoch, numbers in enumerate(records, 1):
        bundle = Bundle(watermark_before=watermark, watermark=epoch)
        for key, number in numbers.items():
            row, encoded = keys[key]
            bundle.keys[row] = (encoded, [KeyRecords("in", [number], [epoch])])
        commit = Worker(place, copy, lambda _, batch: out.extend(batch.values), states=cache).run(bundle)
        plan = plan.with_delta(write_deltas(store, DeltaHeader(epoch, 1, 0, f"t{epoch}"), {"sums": commit.delta}))
        advance(copy, plan.names, partial(_delta, commit.delta))
        watermark = bundle.watermark
        gc.collect()  # As Spark's worker does after every task.
    outcome.seconds.append(time.process_time() - started)
    values = cache.values
    asked, hits = cache.asked + values.hits + values.misses, cache.hits + values.hits
    outcome.hits = hits / asked if asked else 0.0
    copy.close()
    return sorted(out, key=repr)


def _delta(delta: Delta, name: str) -> list[Delta]:
    """What the process that wrote a file need not read again."""
    return [delta]


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    keys: Annotated[int, typer.Option(help="keys, each with a state")] = 1_000,
    epochs: Annotated[int, typer.Option(help="epochs")] = 80,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/cache.json"),
) -> None:
    """Measure every size in turn, round by round, for each size of state; the first round only warms up."""
    figures: dict[str, object] = {}
    loads = [Load(keys, epochs, fields, Profiles) for fields in _LIMITS]
    loads += [Load(keys, epochs, fields) for fields in _FIELDS]
    for load in loads:
        outcomes = _outcomes(load)
        expected: list[object] = []
        for number in range(runs + 1):
            # There and back: what comes first in a round finds the machine in another state.
            for name, outcome in list(outcomes.items())[:: 1 if number % 2 else -1]:
                with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
                    result = run(load, outcome, Path(folder))
                assert result == (expected := expected or result), f"{name}: another result"
                if not number:
                    outcome.seconds.clear()
        figures[f"{load.program.__name__}, {load.fields} numbers"] = {
            name: vars(outcome) | {"cache": name} for name, outcome in outcomes.items()
        }
        _print(load, outcomes)
    save(output, {"benchmark": "cache", "runs": runs, "keys": keys, "epochs": epochs, "states": figures})


def _outcomes(load: Load) -> dict[str, Outcome]:
    whole = load.state_bytes
    sizes = {f"{share:.0%} of all states": int(share * whole) for share in _SHARES}
    outcomes = {name: Outcome(partial(StateCache, size)) for name, size in sizes.items()}
    if load.program is Table:
        outcomes["50% by recency alone"] = Outcome(partial(ByRecency, whole // 2))
    return outcomes


def _print(load: Load, outcomes: dict[str, Outcome]) -> None:
    without = next(iter(outcomes.values()))
    rows = []
    for name, outcome in outcomes.items():
        ratio = median(mine / theirs for mine, theirs in zip(outcome.seconds, without.seconds, strict=True))
        rows.append([name, rounded(median(outcome.seconds)), rounded(ratio), f"{outcome.hits:.0%}"])
    title = (
        f"{load.program.__name__.lower()} with {load.fields:,} numbers, {load.keys:,} keys, all together "
        f"{load.state_bytes / 2**20:,.0f} MiB decoded"
    )
    print_table(title, ["size of the cache", "CPU seconds", "× without", "hits"], rows)


if __name__ == "__main__":
    typer.run(main)
