"""What a recorded run leaves for pictures (`headrace.plot`): arrivals, moves of the watermark, panes, timers."""

from headrace.sdk.recordedplace import recording_at
from headrace.sdk.recording import (
    Arrival,
    FiredTimer,
    Production,
    RecordedPane,
    Recording,
    RecordingError,
    StepRecording,
    WatermarkStep,
)
from headrace.sdk.recordtopology import record_topology

__all__ = [
    "Arrival",
    "FiredTimer",
    "Production",
    "RecordedPane",
    "Recording",
    "RecordingError",
    "StepRecording",
    "WatermarkStep",
    "record_topology",
    "recording_at",
]
