"""Redelivery: records that an injector may deliver again are recognised by their ids (paper §6.1.1).

A keyed computation keeps the ids of the records that it has processed and drops further records with these ids. An id
travels with its record; an output of an inline computation gets an id that follows from the record's, if it depends on
that record alone. A topology in which no keyed computation recognises a record that comes again is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import ReleasingSink
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Context
from headrace.lowlevel.topology.nodes import Wiring


def by_record_id(value: object) -> object:
    """A key extractor that stands for the record's id, so that a record that comes again has the same key.

    Only for streams whose records have ids (`Injector.record_ids`): the engine takes the ids and never calls it. Raises
    `TypeError` if it is called, for a record without an id.

    >>> from headrace.lowlevel import ManualInjector, Topology
    >>> topology = Topology()
    >>> topology.injector("delivered", ManualInjector(record_ids=True))
    >>> topology.computation("once", Once("records"), {"delivered": by_record_id}, ["records"])
    """
    raise TypeError(f"{value!r:.200} came without an id, so by_record_id gives no key; give each record an id")


@named("Once")
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
        output_stream: Stream for the records, without their ids.
    """

    def __init__(self, output_stream: str) -> None:
        self._output_stream = output_stream

    def state_signature(self) -> Mapping[str, str]:
        """Empty, as only ids are stored."""
        return {}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Pass the records on; the worker has dropped those that came before."""
        context.produce_batch(self._output_stream, Batch(batch.values, batch.timestamps))


def refuse_unrecognised(topology: Wiring) -> None:
    """Raise `TopologyError` if a record that comes again could be written or counted again."""
    for stream, injector in topology.injectors.items():
        if not injector.record_ids:
            continue
        carried = topology.carried(stream)
        for name, (sink_input, sink) in topology.sinks.items():
            if sink_input in carried and not isinstance(sink, ReleasingSink):
                raise _refusal(stream, f"sink {name!r}", "would be written again")
        for inline in topology.inlines.values():
            if inline.inputs & carried and inline.computation.loses_ids():
                reader = f"inline computation {inline.name!r}, whose outputs may depend on more than one record,"
                raise _refusal(stream, reader, "would count again")


def _refusal(stream: str, reader: str, consequence: str) -> TopologyError:
    return TopologyError(
        f"{reader} gets records of source {stream!r}, which may deliver a record again (record_ids=True); no "
        f"keyed computation in between drops such a record, which {consequence}; let Once(output) read {stream!r} with "
        "the key extractor by_record_id and read its output instead, or leave record_ids out if no record comes twice"
    )
