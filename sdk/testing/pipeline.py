"""A pipeline for tests (`apache_beam.testing.test_pipeline`)."""

from __future__ import annotations

from headrace.sdk.options import PipelineOptions
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.pipeline.runner_choice import Runner


class TestPipeline(Pipeline):
    """A `Pipeline` for tests, under Beam's name: `run` returns when the run has ended and raises if the run failed.

    Args:
        runner: As for `Pipeline`.
        options: As for `Pipeline`.
        argv: As for `Pipeline`.
        is_integration_test: Accepted for compatibility with Beam, without effect.
        blocking: Accepted for compatibility with Beam, without effect: a run always blocks.

    >>> from headrace.sdk.testing.assertions import assert_that, equal_to
    >>> from headrace.sdk.transforms.core.create import Create
    >>> with TestPipeline("LocalRunner") as pipeline:
    ...     _ = assert_that(pipeline | Create([1, 2]), equal_to([2, 1]))
    """

    # pytest would collect a class with this name.
    __test__ = False

    def __init__(
        self,
        runner: Runner | str | None = None,
        options: PipelineOptions | None = None,
        argv: list[str] | None = None,
        is_integration_test: bool = False,
        blocking: bool = True,
    ) -> None:
        super().__init__(runner, options, argv)

    def get_pipeline_options(self) -> PipelineOptions:
        """The options of the pipeline."""
        return self.options
