"""Classes under Beam's names for options that have no effect in Headrace: any view of options has their values."""

from __future__ import annotations

from headrace.sdk.options import PipelineOptions


class AzureOptions(PipelineOptions):
    """Options of Azure's storage, without effect."""


class CrossLanguageOptions(PipelineOptions):
    """Options of transforms in other languages, without effect: only Python runs here."""


class DebugOptions(PipelineOptions):
    """Options such as `experiments`, without effect."""

    experiments: list[str] | None

    def add_experiment(self, experiment: str) -> None:
        """Append to `experiments`."""
        self.experiments = [*(self.experiments or []), experiment]

    def lookup_experiment(self, key: str, default: object = None) -> object:
        """The value of an experiment `key=value`, True for `key` alone, and the default if there is none."""
        for experiment in reversed(self.experiments or []):
            name, equals, value = experiment.partition("=")
            if name == key:
                return value if equals else True
        return default


class DirectOptions(PipelineOptions):
    """Options of Beam's direct runner, without effect."""


class FlinkRunnerOptions(PipelineOptions):
    """Options of Beam's runner on Flink, without effect."""


class GoogleCloudOptions(PipelineOptions):
    """Options of Google Cloud, such as `project`, without effect."""


class HadoopFileSystemOptions(PipelineOptions):
    """Options of HDFS, without effect."""


class PortableOptions(PipelineOptions):
    """Options of job servers, without effect: there is none."""


class ProfilingOptions(PipelineOptions):
    """Options of profilers, without effect."""


class S3Options(PipelineOptions):
    """Options of Amazon S3, without effect: docs/connectors.md says where its credentials are taken from."""


class SparkRunnerOptions(PipelineOptions):
    """Options of Beam's runner on Spark, without effect: the active session of Spark is used."""


class StreamingOptions(PipelineOptions):
    """Options of streaming jobs, without effect."""


class TestOptions(PipelineOptions):
    """Options of tests, without effect."""

    # pytest would collect a class with this name.
    __test__ = False


class WorkerOptions(PipelineOptions):
    """Options of workers in a cloud, without effect: workers are Spark's."""
