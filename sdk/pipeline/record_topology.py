"""Recording of a run of a topology without a pipeline."""

from __future__ import annotations

from collections.abc import Collection

from headrace.lowlevel.topology.topology import Topology
from headrace.options.pipeline_options import PipelineOptions, progress_of
from headrace.sdk.pipeline.runner_choice import Runner, find_runner, run_options
from headrace.sdk.recording.recorder import Recorder
from headrace.sdk.recording.recording import Recording
from headrace.sdk.recording.recording_log import log_of
from headrace.sdk.result import RunOutcome


def record_topology(
    runner: Runner, topology: Topology, options: PipelineOptions | None = None, wanted: Collection[str] = ()
) -> tuple[RunOutcome, Recording]:
    """Run a topology, and record its computations of the names wanted, or all.

    With a checkpoint (`--checkpoint` in the options) the recording is stored in it, over all its epochs.

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
    engine_options = run_options(given, recorder.with_progress(progress_of(given)))
    result = find_runner(runner).run_topology(recorder.topology(topology), engine_options)
    return result, recorder.recording()
