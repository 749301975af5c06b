"""Poison records: records that user code raises for become dead letters and have no other effect.

The effects of a poison record before it raised are undone: the key is restored from a savepoint and its records are
processed again without the poison. Only one savepoint is made before the first failure, so other keys cost little.
"""

from __future__ import annotations

from itertools import repeat

from headrace.lowlevel.processing.key_context import KeyContext
from headrace.lowlevel.records.record import KeyRecords, Record
from headrace.lowlevel.topology.nodes import DEAD_LETTERS, DeadLetter, Keyed
from headrace.lowlevel.user_errors import own_traceback

_STRIDE = 64
"""Number of records between savepoints after the first failure; a failure processes at most so many of them again."""


def run_without_poison(node: Keyed, context: KeyContext, key_records: KeyRecords) -> None:
    """Process the records of a key; a record that `process_record` raises for becomes a dead letter."""
    columns = (key_records.values, key_records.timestamps, key_records.ids or repeat(None))
    records = list(map(Record, repeat(context.key), *columns))
    letters: dict[int, DeadLetter] = {}
    saved, begin = context.savepoint(), 0
    while begin < len(records):
        stop = len(records) if not letters else min(begin + _STRIDE, len(records))
        failed = _run(node, context, records, begin, stop, letters)
        if failed:
            context.restore(saved)
        else:
            begin = stop
            if begin < len(records):
                saved = context.savepoint()
    for index, letter in letters.items():
        assert node.dead_letters is not None
        context.produce(node.dead_letters, letter, records[index].timestamp)
    if letters:
        context.count(DEAD_LETTERS, len(letters))


def _run(
    node: Keyed, context: KeyContext, records: list[Record], begin: int, stop: int, letters: dict[int, DeadLetter]
) -> bool:
    """Process the records from `begin` to before `stop`, except known poison; True if another record failed."""
    process = node.computation.process_record
    for index in range(begin, stop):
        if index in letters:
            continue
        record = records[index]
        context.now = record.timestamp
        try:
            process(record, context)
        except Exception as error:
            letters[index] = DeadLetter(node.name, record.key, record.value, own_traceback(error))
            return True
    return False
