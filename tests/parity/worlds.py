"""Where programs run: each world has its package, and a way to see every element that a program puts out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Protocol

from tests.parity.canonical import Element
from tests.parity.corpus import Program

Results = dict[str, list[Element]]
"""Output name -> its elements, sorted. A program with one output has it under the empty name."""
Row = tuple[str, str, Element]
"""Program, output, element."""


class World(Protocol):
    """Runs programs."""

    def run(self, programs: Iterable[Program]) -> dict[str, Results]:
        """Run programs together in one pipeline; program -> what it put out."""


class Headrace:
    """Headrace on a runner."""

    def __init__(self, runner: Callable[[], object]) -> None:
        self._runner = runner

    def run(self, programs: Iterable[Program]) -> dict[str, Results]:
        import headrace
        from headrace.lowlevel import CallSink
        from headrace.options.pipeline_options import PipelineOptions
        from headrace.sdk.transforms.core.low_level import Write

        programs, rows = list(programs), []
        keep = CallSink(lambda epoch, came: rows.extend(row for row, _ in came))
        p = headrace.Pipeline(self._runner(), PipelineOptions(_flags(programs)))
        seen = _build(headrace, p, programs, see(headrace, lambda row, run: [row]), None)
        for (program, output), collection in seen.items():
            collection | f"keep {program} {output}" >> Write(keep)
        p.run()
        return _results(seen, rows)


class Beam:
    """Apache Beam, offline, on the direct runner that can do what the programs need."""

    def run(self, programs: Iterable[Program]) -> dict[str, Results]:
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        programs, package, run = list(programs), beam(), next(_runs)
        # Named, as the default runner would look for another one to download.
        streaming = programs[0].streaming
        runner = BundleBasedDirectRunner() if streaming else FnApiRunner()
        p = package.Pipeline(runner, PipelineOptions([*_flags(programs), *(["--streaming"] if streaming else [])]))
        seen = _build(package, p, programs, see(package, remember), run)
        _remembered[run] = []
        try:
            # Not the default way to run: it first makes the pipeline anew from its protos.
            p.run(test_runner_api=False).wait_until_finish()
            return _results(seen, _remembered[run])
        finally:
            del _remembered[run]


@cache
def beam():
    """The package Apache Beam, with the modules that programs reach through it."""
    import apache_beam
    import apache_beam.testing.test_stream
    import apache_beam.testing.util
    import apache_beam.transforms.deduplicate

    return apache_beam


# Beam's direct runners work in this process, and a function of a module is pickled by its name.
_remembered: dict[int, list[Row]] = {}
_runs = itertools.count()


def remember(row: Row, run: int) -> None:
    """Keep what Beam put out in a run."""
    _remembered[run].append(row)


def see(package, keep: Callable[[Row, int | None], object]):
    """A step that hands every element, with all that the model says of it, to a function and puts out its result."""

    class See(package.DoFn):
        def process(
            self,
            value,
            program,
            output,
            run,
            timestamp=package.DoFn.TimestampParam,
            window=package.DoFn.WindowParam,
            pane=package.DoFn.PaneInfoParam,
        ):
            return keep((program, output, Element.of(value, timestamp, window, pane)), run)

    # A stated type spares Beam the search for one.
    return lambda *place: package.ParDo(See(), *place).with_output_types(Any)


def _build(package, p, programs: Iterable[Program], step, run: int | None):
    """Build programs, and look at what they put out; (program, output) -> what that step puts out."""
    seen = {}
    for program in programs:
        for output, collection in _outputs(p | program.name >> _scope(package, program)).items():
            place = (program.name, output)
            seen[place] = collection | f"see {' '.join(place)}" >> step(*place, run)
    return seen


def _scope(package, program: Program):
    """A program as a composite transform, so that its labels are its own."""

    class Scope(package.PTransform):
        def expand(self, begin):
            return program.build(package, begin)

    return Scope()


def _outputs(built: object) -> Mapping[str, object]:
    return built if isinstance(built, Mapping) else {"": built}


def _flags(programs: Iterable[Program]) -> list[str]:
    """The options that any of the programs needs."""
    return sorted({flag for program in programs for flag in program.flags})


def _results(seen: Iterable[tuple[str, str]], rows: Iterable[Row]) -> dict[str, Results]:
    results: dict[str, Results] = {}
    for program, output in seen:
        results.setdefault(program, {})[output] = []
    for program, output, element in sorted(rows):
        results[program][output].append(element)
    return results
