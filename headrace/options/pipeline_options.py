"""Exports, under the module name of Beam, the options of a pipeline."""

from headrace.sdk.command_line.option_classes import (
    AzureOptions,
    CrossLanguageOptions,
    DebugOptions,
    DirectOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    HadoopFileSystemOptions,
    PortableOptions,
    ProfilingOptions,
    S3Options,
    SparkRunnerOptions,
    StreamingOptions,
    TestOptions,
    WorkerOptions,
)
from headrace.sdk.options import EngineOptions, PipelineOptions, SetupOptions, StandardOptions, TypeOptions

__all__ = [
    "AzureOptions",
    "CrossLanguageOptions",
    "DebugOptions",
    "DirectOptions",
    "EngineOptions",
    "FlinkRunnerOptions",
    "GoogleCloudOptions",
    "HadoopFileSystemOptions",
    "PipelineOptions",
    "PortableOptions",
    "ProfilingOptions",
    "S3Options",
    "SetupOptions",
    "SparkRunnerOptions",
    "StandardOptions",
    "StreamingOptions",
    "TestOptions",
    "TypeOptions",
    "WorkerOptions",
]
