"""Recording of a run of a topology, which has no pipeline around it."""

from __future__ import annotations

from collections.abc import Collection

from headrace.lowlevel.topology import Topology
from headrace.sdk.options import PipelineOptions
from headrace.sdk.recorder import Recorder
from headrace.sdk.recording import Recording
from headrace.sdk.recordlog import log_of
from headrace.sdk.running import Runner, RunResult, find_recorded, run_options


def record_topology(
    runner: Runner, topology: Topology, options: PipelineOptions | None = None, wanted: Collection[str] = ()
) -> tuple[RunResult, Recording]:
    """Run a topology, and record its computations of the names wanted, or all.

    With a checkpoint (`--checkpoint` in the options) the recording lies in it, over all its epochs.

    Raises:
        RecordingError: There is nothing to record, or no computation of such a name.

    >>> from headrace.lowlevel import BoundedInjector, Computation
    >>> from headrace.runners.local import LocalRunner
    >>> class Echo(Computation):
    ...     def process_record(self, record, context):
    ...         context.produce("said", record.value, record.timestamp)
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("hey", 1), ("ho", 2)]))
    >>> topology.computation("echo", Echo(), inputs={"words": lambda word: word}, outputs=["said"])
    >>> result, recording = record_topology(LocalRunner(), topology)
    >>> [(said.key, said.value, said.event_time) for said in recording.step("echo").productions]
    [('hey', 'hey', 1), ('ho', 'ho', 2)]
    """
    given = options or PipelineOptions([])
    recorder = Recorder.of_topology(topology, wanted, log_of(given))
    result = find_recorded(runner).run_topology(recorder.topology(topology), run_options(given, recorder))
    return result, recorder.recording()
