"""A pipeline for tests (`apache_beam.testing.test_pipeline`)."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.pipeline.runner_choice import Runner


class TestPipeline(Pipeline):
    """A `Pipeline` for tests, under Beam's name: `run` returns when the run has ended and raises if the run failed.

    Args:
        runner: As for `Pipeline`.
        options: As for `Pipeline`.
        argv: As for `Pipeline`; by default the flags in `--test-pipeline-options` on the command line.
        is_integration_test: Accepted for compatibility with Beam, without effect.
        blocking: Accepted for compatibility with Beam, without effect: a run always blocks.
        additional_pipeline_args: Flags besides those on the command line.

    >>> from headrace.sdk.testing.assertions import assert_that, equal_to
    >>> from headrace.sdk.transforms.core.create import Create
    >>> with TestPipeline("LocalRunner") as pipeline:
    ...     _ = assert_that(pipeline | Create([1, 2]), equal_to([2, 1]))
    """

    # pytest would collect a class with this name.
    __test__ = False
    pytest_test_pipeline_options: str | None = None
    """Flags where the command line has no `--test-pipeline-options`, for a `conftest.py` to set."""

    def __init__(
        self,
        runner: Runner | str | None = None,
        options: PipelineOptions | None = None,
        argv: list[str] | None = None,
        is_integration_test: bool = False,
        blocking: bool = True,
        additional_pipeline_args: Sequence[str] = (),
    ) -> None:
        self.options_list = [*self.get_options_list(argv), *additional_pipeline_args]
        super().__init__(runner, options or PipelineOptions(argv or self.options_list))

    @classmethod
    def get_options_list(cls, argv: Sequence[str] | None = None) -> list[str]:
        """The flags in the value of `--test-pipeline-options`, of the command line unless `argv` is given."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--test-pipeline-options", default="")
        given = parser.parse_known_args(sys.argv if argv is None else argv)[0].test_pipeline_options
        return shlex.split(given or cls.pytest_test_pipeline_options or "")

    def get_full_options_as_args(self, **extra_opts: object) -> list[str]:
        """The flags in `--test-pipeline-options`, and one for each keyword; False, None and empty ones are left out."""
        given = [f"--{name}" if value is True else f"--{name}={value}" for name, value in extra_opts.items() if value]
        return [*self.options_list, *given]

    def get_option(self, opt_name: str, bool_option: bool = False) -> str | bool | None:
        """The value of an option in `--test-pipeline-options`; None if it is not there.

        Args:
            opt_name: Name of the option, without hyphens before it.
            bool_option: Whether the option is a switch, which is True or False.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument(f"--{opt_name}", dest="value", action="store_true" if bool_option else "store")
        value: str | bool | None = parser.parse_known_args(self.options_list)[0].value
        return value

    def get_pipeline_options(self) -> PipelineOptions:
        """The options of the pipeline."""
        return self.options
