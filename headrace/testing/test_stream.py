"""Under the name that Beam programs import: streams that tests tell what happens."""

from headrace.sdk.testing.events import ElementEvent, ProcessingTimeEvent, WatermarkEvent
from headrace.sdk.testing.stream import TestStream

__all__ = ["ElementEvent", "ProcessingTimeEvent", "TestStream", "WatermarkEvent"]
