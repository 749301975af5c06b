"""Exports, under the module name of Beam, a source whose elements, watermark and clock a test sets."""

from headrace.sdk.testing.events import ElementEvent, ProcessingTimeEvent, WatermarkEvent
from headrace.sdk.testing.stream import TestStream

__all__ = ["ElementEvent", "ProcessingTimeEvent", "TestStream", "WatermarkEvent"]
