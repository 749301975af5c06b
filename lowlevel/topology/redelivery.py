"""Records that an injector may deliver again: where they are recognised by their ids (paper §6.1.1).

A keyed computation keeps the ids of the records that it has processed and drops what comes again. An id travels with
its record: what an inline computation makes of a record has ids that follow from the record's own, as long as it makes
it of that record alone. Where no keyed computation stands between, nothing recognises a record that comes again, so
such a topology is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.lowlevel.computation import BundleComputation, Context
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.record import Batch
from headrace.lowlevel.sink import ReleasingSink

if TYPE_CHECKING:
    from headrace.lowlevel.topology import Topology


def by_record_id(value: object) -> object:
    """As a key extractor: the key of a record is its id, so that a record that comes again comes to the same place.

    Only for streams whose records have ids (`Injector.record_ids`). The engine never calls it; it takes the ids.
    """
    raise TypeError(f"{value!r:.200} came without an id, so by_record_id gives no key; give each record an id")


class Once(BundleComputation):
    """Passes each record on once, however often an injector delivers it.

    >>> from headrace.lowlevel import CallSink, ManualInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> injector = ManualInjector(record_ids=True).records(("a", 1), ("a", 1), ids=[b"7", b"7"])
    >>> topology = Topology()
    >>> topology.injector("delivered", injector)
    >>> topology.computation("once", Once("records"), {"delivered": by_record_id}, ["records"])
    >>> topology.sink("print", "records", CallSink(lambda epoch, rows: print(rows)))
    >>> result = LocalRunner().run_topology(topology)
    [('a', 1)]

    Args:
        output_stream: Where the records go, without their ids: they need none any more.
    """

    def __init__(self, output_stream: str) -> None:
        self._output_stream = output_stream

    def state_signature(self) -> Mapping[str, str]:
        """Nothing is stored but ids."""
        return {}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Pass the records on that did not come before."""
        context.produce_batch(self._output_stream, Batch(batch.values, batch.timestamps))


def unrecognised(topology: Topology) -> Iterator[tuple[str, str, str]]:
    """Where a record that comes again would count again: the injector's stream, who reads it there, what happens."""
    for stream, injector in topology.injectors.items():
        if not injector.record_ids:
            continue
        carried = topology.carried(stream)
        for name, (read, sink) in topology.sinks.items():
            if read in carried and not isinstance(sink, ReleasingSink):
                yield stream, f"sink {name!r}", "would be written again"
        for inline in topology.inlines.values():
            if inline.inputs & carried and inline.computation.loses_ids():
                what = "which puts out what does not follow from one record alone"
                yield stream, f"inline computation {inline.name!r}, {what},", "would count again"


def refuse_unrecognised(topology: Topology) -> None:
    """Raise `TopologyError` where a record that comes again would count again."""
    for stream, who, consequence in unrecognised(topology):
        raise _refusal(stream, who, consequence)


def _refusal(stream: str, who: str, consequence: str) -> TopologyError:
    return TopologyError(
        f"{who} gets records of the injector of {stream!r}, which may deliver them again (record_ids=True), and no "
        f"keyed computation before it drops what comes again, so it {consequence}; let Once(output) read {stream!r} "
        "with the key extractor by_record_id, and its output be read instead, or leave record_ids out if nothing comes "
        "twice"
    )
