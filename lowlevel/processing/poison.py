"""Poison: the records of a key, processed as if those that user code raises for had not come.

What such a record did before it raised is undone: the key goes back to a savepoint and is processed again without it.
Nothing is saved on the way before the first failure, so that records that are well cost nothing.
"""

from __future__ import annotations

from itertools import repeat

from headrace.lowlevel.context import KeyContext
from headrace.lowlevel.deadletter import DEAD_LETTERS, DeadLetter
from headrace.lowlevel.failure import own_traceback
from headrace.lowlevel.part import Part
from headrace.lowlevel.record import Record
from headrace.lowlevel.topology import Keyed

_STRIDE = 64
"""Records between two savepoints, once one has failed: so many are processed again at most for each that fails."""


def run_around_poison(place: Keyed, context: KeyContext, part: Part) -> None:
    """Process the records; those that `process_record` raises for go to the stream of dead letters."""
    records = list(map(Record, repeat(context.key), part.values, part.timestamps, part.ids or repeat(None)))
    letters: dict[int, DeadLetter] = {}
    saved, begin = context.savepoint(), 0
    while begin < len(records):
        stop = len(records) if not letters else min(begin + _STRIDE, len(records))
        failed = _run(place, context, records, begin, stop, letters)
        if failed:
            context.restore(saved)
        else:
            begin = stop
            if begin < len(records):
                saved = context.savepoint()
    for index, letter in letters.items():
        assert place.dead_letters is not None
        context.produce(place.dead_letters, letter, records[index].timestamp)
    if letters:
        context.count(DEAD_LETTERS, len(letters))


def _run(
    place: Keyed, context: KeyContext, records: list[Record], begin: int, stop: int, letters: dict[int, DeadLetter]
) -> bool:
    """Process some records, without those known to fail; whether another one did."""
    process = place.computation.process_record
    for index in range(begin, stop):
        if index in letters:
            continue
        record = records[index]
        context.now = record.timestamp
        try:
            process(record, context)
        except Exception as error:
            letters[index] = DeadLetter(place.name, record.key, record.value, own_traceback(error))
            return True
    return False
