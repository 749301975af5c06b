"""Exports, under the module name of Beam, all transforms, and the modules of windows, triggers and combiners."""

from typing import Any

from headrace.absent_names.absent_modules import add_absent_names, export_from_modules
from headrace.sdk.graph.ptransform import apply_to_lists_by
from headrace.transforms import combiners as combiners
from headrace.transforms import core as core
from headrace.transforms import deduplicate as deduplicate
from headrace.transforms import error_handling as error_handling
from headrace.transforms import periodicsequence as periodicsequence
from headrace.transforms import ptransform as ptransform
from headrace.transforms import stats as stats
from headrace.transforms import timeutil as timeutil
from headrace.transforms import trigger as trigger
from headrace.transforms import userstate as userstate
from headrace.transforms import util as util
from headrace.transforms import window as window
from headrace.transforms.core import *
from headrace.transforms.ptransform import *
from headrace.transforms.stats import *
from headrace.transforms.util import *


@apply_to_lists_by
def _apply_to_lists(transform: PTransform[Any, Any], inputs: object, label: str) -> object:
    # Pipelines take as long to import as all transforms.
    from headrace.sdk.pipeline.eager import apply_eagerly

    return apply_eagerly(transform, inputs, label)


add_absent_names(__name__)
export_from_modules(__name__)
