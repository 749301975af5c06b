"""HeadraceRunner in the place of Beam's direct runners, which its tests ask for by default, by name or by instance."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import apache_beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner, SwitchingDirectRunner
from apache_beam.runners.portability import prism_runner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.beam.suites import daemon, records

RUNNERS = (SwitchingDirectRunner, BundleBasedDirectRunner, FnApiRunner)
NAMES = {"directrunner", "switchingdirectrunner", "bundlebaseddirectrunner", "fnapirunner"}


def substitute(runner: str) -> None:
    """Have pipelines for Beam's direct runners run by another.

    Args:
        runner: "local" or "spark" for HeadraceRunner; "beam" for Beam's, without looking for Prism on the network.
    """
    daemon.use_mock()
    prism_runner.PrismRunner.run_pipeline = _no_prism
    if runner == "beam":
        return
    os.environ["HEADRACE_RUNNER"] = runner
    from headrace.runners.beam import HeadraceRunner

    StandardOptions.DEFAULT_RUNNER = "headrace.runners.beam.HeadraceRunner"
    apache_beam.Pipeline.__init__ = _with_runner(apache_beam.Pipeline.__init__, HeadraceRunner)


def prepare_workers() -> None:
    """Have the workers of the Spark session that the first pipeline makes forked from our daemon."""
    from headrace.runners.spark import new_session
    from tests.beam.suites.eager import collect_on_driver

    records.share_records()
    collect_on_driver()
    new_session._QUIET["spark.python.daemon.module"] = daemon.__name__


def _no_prism(*arguments: object) -> None:
    raise RuntimeError("Prism is a program from the network")


def _with_runner(make: Callable[..., None], runner: Callable[[], object]) -> Callable[..., None]:
    """The constructor of a pipeline, with the runner in the place of Beam's direct runners."""

    def make_pipeline(
        self: object, wanted: object = None, options: PipelineOptions | None = None, *args: Any, **kwargs: Any
    ) -> None:
        wanted = kwargs.pop("runner", wanted)
        if wanted is None and isinstance(options, PipelineOptions):
            wanted = options.view_as(StandardOptions).runner
        if _is_direct(wanted):
            options = _drained(options) if getattr(wanted, "_is_drain", False) else options
            wanted = runner()
        make(self, wanted, options, *args, **kwargs)

    return make_pipeline


def _drained(options: PipelineOptions | None) -> PipelineOptions:
    """The options with --drain, which stands for what `FnApiRunner(is_drain=True)` asks for."""
    from headrace.runners.beam.run.options import HeadraceOptions

    drained = options or PipelineOptions([])
    drained.view_as(HeadraceOptions).drain = True
    return drained


def _is_direct(wanted: object) -> bool:
    """Whether it is a direct runner of Beam's, or the name of one."""
    if isinstance(wanted, str):
        return wanted.rpartition(".")[2].lower() in NAMES
    return type(wanted) in RUNNERS


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in what takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test has taken {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
