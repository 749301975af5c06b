"""Exports, under the module name of Beam, triggers."""

from headrace.sdk.triggers import *
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior

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
    "ClosingBehavior",
    "DefaultTrigger",
    "Moment",
    "Never",
    "OnTimeBehavior",
    "OrFinally",
    "Progress",
    "Repeatedly",
    "Trigger",
    "TriggerFn",
]

TriggerFn = Trigger
