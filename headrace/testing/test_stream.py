"""Exports, under the module name of Beam, a source whose elements, watermark and clock a test sets."""

from headrace.sdk.testing.stream import ElementEvent, ProcessingTimeEvent, TestStream, WatermarkEvent

__all__ = ["ElementEvent", "ProcessingTimeEvent", "TestStream", "WatermarkEvent"]
