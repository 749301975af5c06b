"""The command `headrace run`: runs a pipeline or a topology to the end of its input, and shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Self

import typer
from rich.console import Console

from headrace.cli.column_share import unlike_explained
from headrace.cli.early_signals import end_process
from headrace.cli.ending import Ending, as_misuse, endings, errors, print_message
from headrace.cli.target import Program, load
from headrace.lowlevel.topology.topology import Topology
from headrace.options.pipeline_options import EngineOptions, PipelineOptions, checkpoint_of
from headrace.runners.engine.driver.signals import stand_in
from headrace.runners.engine.options import run_options
from headrace.runners.reporting import Reporter, Reporters, reporter_for
from headrace.runners.reporting.prometheus import PrometheusReporter
from headrace.runners.reporting.reporter import LastProgress, PortError
from headrace.sdk.pipeline.pipeline import Pipeline, record_topology
from headrace.sdk.pipeline.runner_choice import Runner, find_runner, labels_to_record
from headrace.ui.server import PageReporter, page_address

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:PIPELINE",
        help="A file or a module, and the name of a pipeline, of a topology, or of a function that makes one; the name "
        "is 'pipeline' if not given.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="name=value, or a name alone; may be repeated.", hidden=True),
]
Prometheus = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus at /metrics on this port: to this machine only, or at the address HOST.",
    ),
]
Page = Annotated[
    str | None,
    typer.Option(
        metavar="[[HOST:]PORT]",
        help="Serve a page that shows the run, on port 8765 or this one: to this machine only, or at the address HOST, "
        "with a token.",
    ),
]
Details = Annotated[
    bool, typer.Option("--details", help="Add the figures of each step to progress that is printed as lines of JSON.")
]


def run(
    target: Target,
    runner: Annotated[
        str | None, typer.Option(help="LocalRunner or SparkRunner; Spark if not given, which the extra spark brings.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Directory or URL for the state of the run; the same command continues from there."),
    ] = None,
    option: Options = None,
    progress: Annotated[bool, typer.Option(help="Show the progress of the run.")] = True,
    details: Details = False,
    prometheus: Prometheus = None,
    ui: Page = None,
) -> None:
    """Run a pipeline to the end of its input.

    Beside the options below it takes those of the engine and of the pipeline itself, each as --name=value; `headrace
    options` lists them. Ends with 0 when the input has ended, 1 when a step failed, 2 when there is no such pipeline,
    3 when another run has taken the checkpoint over, 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP, which
    let the epoch end.

    Example: headrace run scores.py:pipeline --checkpoint=state/scores --max_records_per_epoch=10000
    """
    flags = flags_of(option or [], checkpoint)
    stand_in(end_process)
    with endings():
        reporters = _reporters(progress, details, prometheus)
        program = load(target, runner, flags)
        if ui is not None:
            reporters.insert(0, _page(ui, target, program, flags))
        last = _LastEpoch()
        start = _start(program, runner, flags, reporter := Reporters(last, *reporters))
        try:
            with as_misuse(PortError), reporter:
                start()
        except KeyboardInterrupt as stop:
            print_message(errors, last.on_interrupt(checkpoint))
            raise typer.Exit(Ending.INTERRUPTED) from stop
    last.say_end(program)


def flags_of(options: Sequence[str], checkpoint: str | None = None) -> list[str]:
    """Return options of the command line as flags of a pipeline.

    >>> flags_of(["intervals=4", "streaming"], "there")
    ['--intervals=4', '--streaming', '--checkpoint=there']
    """
    flags = [f"--{option.removeprefix('--')}" for option in options]
    return flags if checkpoint is None else [*flags, f"--checkpoint={checkpoint}"]


def _reporters(progress: bool, details: bool, prometheus: str | None) -> list[Reporter]:
    reporters: list[Reporter] = [reporter_for(Console(stderr=True, highlight=False), details)] if progress else []
    if prometheus is not None:
        with as_misuse(ImportError, ValueError):
            reporters.append(PrometheusReporter.at(prometheus))
    return reporters


def _page(address: str, target: str, program: Program, flags: Sequence[str]) -> PageReporter:
    """Return the reporter that serves the page of a run, and prints its address."""
    options = program.options if isinstance(program, Pipeline) else PipelineOptions(list(flags))
    checkpoint = checkpoint_of(options)
    if checkpoint is not None and checkpoint.startswith("memory:"):
        checkpoint = None
    topology = program.topology if isinstance(program, Pipeline) else lambda: program
    with as_misuse(ImportError, ValueError):
        host, port = page_address(address)
        return _AnnouncedPage(port, host, checkpoint=checkpoint, topology=topology, title=target)


class _AnnouncedPage(PageReporter):
    """A page whose address is printed when it begins to be served, before a display that is redrawn in place."""

    def __enter__(self) -> Self:
        super().__enter__()
        print_message(errors, f"page: {self.address}")
        return self


class _LastEpoch(LastProgress):
    """Keeps the progress of the last epoch, for the message at the end."""

    def say_end(self, program: Program) -> None:
        """Print the messages for the end of the input."""
        print_message(Console(highlight=False), self._at_end())
        if self._last is not None and isinstance(program, Pipeline):
            for sentence in unlike_explained(program, self._last.metrics):
                print_message(errors, sentence)

    def _at_end(self) -> str:
        if (last := self._last) is None:
            return "done: there was nothing left to do"
        numbers = (
            f"{last.records_in:,} records in, {last.records_out:,} out, {last.late:,} late, {last.dropped:,} dropped"
        )
        return f"done: {last.epoch:,} epochs, {numbers}"

    def on_interrupt(self, checkpoint: str | None) -> str:
        """Return the message for Ctrl-C."""
        if checkpoint is None:
            return "interrupted: without a checkpoint nothing of the run is kept"
        if self._last is None:
            return "interrupted: nothing is committed by this run; run the same command again"
        return f"interrupted: epoch {self._last.epoch:,} is committed; run the same command again to go on from there"


def _start(program: Program, runner: str | None, flags: Sequence[str], reporter: Reporters) -> Callable[[], object]:
    """Return a function that runs the program and reports its progress.

    Raises `MisuseError` for bad options, and for a runner whose packages are not installed.
    """
    with as_misuse(ImportError, ValueError):
        if isinstance(program, Pipeline):
            program.options.view_as(EngineOptions).progress = reporter
            run_options(program.options)
            program.runner = find_runner(program.runner)
            return program.run
        given = PipelineOptions(list(flags), progress=reporter)
        if (wanted := labels_to_record(False, given)) is not None:
            return partial(_record, find_runner(runner), program, given, wanted)
        return partial(find_runner(runner).run_topology, program, run_options(given))


def _record(runner: Runner, topology: Topology, options: PipelineOptions, wanted: Sequence[str]) -> None:
    """Run a topology and record the run, in its checkpoint or in a file."""
    _, recording = record_topology(runner, topology, options, wanted)
    if (path := options.view_as(EngineOptions).record_to) is not None:
        recording.save(path)
