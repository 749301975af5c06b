"""Encodes rows that a sink has not acknowledged, and releases them again (MillWheel paper §6.1.3, figure 11).

A task that released the rows writes the bytes into the commit; the driver reads them there and releases the rows again
(`runners.engine.driver.stragglers`).
"""

from __future__ import annotations

import pickle

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import ReleasingSink
from headrace.runners.engine.messages import SINK
from headrace.runners.engine.sink_errors import failing


def straggler(sink: str, batch: Batch, epoch: int, interval: int, token: str) -> PendingProduction:
    """Encode rows that were released and not acknowledged, as a part of the commit."""
    columns = (epoch, token, list(batch.values), list(batch.timestamps))
    data = pickle.dumps(columns, pickle.HIGHEST_PROTOCOL)
    return PendingProduction(SINK, interval, sink, min(batch.timestamps), data)


def release_again(sink: ReleasingSink, item: PendingProduction) -> bool:
    """Release the rows of a straggler once more; returns whether the sink acknowledged them. Raises `StepError`."""
    epoch, token, values, timestamps = pickle.loads(item.data)
    with failing(item.consumer):
        return sink.release(Batch(values, timestamps), epoch, item.interval, token)
