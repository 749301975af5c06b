"""Under the name that Beam programs import: triggers."""

from headrace.sdk.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    AtPeriod,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)

__all__ = [
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
    "Never",
    "OrFinally",
    "Repeatedly",
    "Trigger",
    "TriggerFn",
]

TriggerFn = Trigger
