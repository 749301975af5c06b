"""What a recorded run leaves for pictures (`headrace.plot`): arrivals, moves of the watermark, panes."""

from headrace.sdk.recording import Arrival, RecordedPane, Recording, RecordingError, StepRecording, WatermarkStep

__all__ = ["Arrival", "RecordedPane", "Recording", "RecordingError", "StepRecording", "WatermarkStep"]
