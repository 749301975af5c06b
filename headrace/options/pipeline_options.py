"""Exports, under the module name of Beam, the options of a pipeline."""

from headrace.sdk.options import EngineOptions, PipelineOptions, SetupOptions, StandardOptions, TypeOptions

__all__ = ["EngineOptions", "PipelineOptions", "SetupOptions", "StandardOptions", "TypeOptions"]
