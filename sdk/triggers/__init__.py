"""When in processing time panes are emitted: triggers and composite triggers."""

from headrace.sdk.triggers.composite import AfterAll, AfterAny, AfterEach, OrFinally, Repeatedly
from headrace.sdk.triggers.data_driven import AfterCount, AfterElement, Always, Never
from headrace.sdk.triggers.processing_time import AfterProcessingTime, AtPeriod
from headrace.sdk.triggers.trigger import FINISHED, AccumulationMode, Moment, Progress, Trigger
from headrace.sdk.triggers.watermark import AfterWatermark, DefaultTrigger

__all__ = [
    "FINISHED",
    "AccumulationMode",
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterElement",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "AtPeriod",
    "DefaultTrigger",
    "Moment",
    "Never",
    "OrFinally",
    "Progress",
    "Repeatedly",
    "Trigger",
]
