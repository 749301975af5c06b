"""Headrace: a Beam-style SDK on MillWheel primitives, executed by Apache Spark.

>>> import headrace as beam
>>> with beam.Pipeline("LocalRunner") as pipeline:
...     _ = pipeline | beam.Create([1, 2, 3]) | beam.Map(lambda number: number * number) | "Print" >> beam.Map(print)
1
4
9
"""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from headrace.absent_names.absent_modules import absent_attribute, add_absent_modules

if TYPE_CHECKING:
    from headrace import coders as coders
    from headrace import io as io
    from headrace import metrics as metrics
    from headrace import options as options
    from headrace import pvalue as pvalue
    from headrace import testing as testing
    from headrace import transforms as transforms
    from headrace import typehints as typehints
    from headrace import utils as utils
    from headrace.pvalue import PCollection as PCollection
    from headrace.pvalue import Row as Row
    from headrace.pvalue import TaggedOutput as TaggedOutput
    from headrace.sdk.expressions.expression import col as col
    from headrace.sdk.expressions.expression import event_time as event_time
    from headrace.sdk.expressions.expression import literal as literal
    from headrace.sdk.expressions.expression import pane_index as pane_index
    from headrace.sdk.expressions.expression import pane_timing as pane_timing
    from headrace.sdk.expressions.expression import window_end as window_end
    from headrace.sdk.expressions.expression import window_start as window_start
    from headrace.sdk.pipeline.pipeline import Pipeline as Pipeline
    from headrace.sdk.recording.state_table import read_state as read_state
    from headrace.sdk.transforms.core.low_level import RunComputation as RunComputation
    from headrace.transforms import *

__version__ = "0.1.0"

_EXPORTED_MODULES = ["coders", "io", "metrics", "options", "pvalue", "testing", "transforms", "typehints", "utils"]
_MODULES = {*_EXPORTED_MODULES, "error", "lowlevel", "pipeline", "runners", "sdk"}
_PLACES = {
    "PCollection": "headrace.pvalue",
    "Pipeline": "headrace.sdk.pipeline.pipeline",
    "Row": "headrace.pvalue",
    "RunComputation": "headrace.sdk.transforms.core.low_level",
    "TaggedOutput": "headrace.pvalue",
    "read_state": "headrace.sdk.recording.state_table",
    **dict.fromkeys(
        ["col", "event_time", "literal", "pane_index", "pane_timing", "window_end", "window_start"],
        "headrace.sdk.expressions.expression",
    ),
}
"""Maps a name that is not in `headrace.transforms` to its module."""


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that a command starts without importing all modules."""
    if name in _MODULES:
        return import_module(f"headrace.{name}")
    of_transforms = [] if name.startswith("__") and name != "__all__" else import_module("headrace.transforms").__all__
    if name == "__all__":
        found: object = [*_EXPORTED_MODULES, *_PLACES, *of_transforms]
    elif name in _PLACES or name in of_transforms:
        found = getattr(import_module(_PLACES.get(name, "headrace.transforms")), name)
    else:
        return absent_attribute(__name__, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *cast("list[str]", __getattr__("__all__"))})


add_absent_modules()
