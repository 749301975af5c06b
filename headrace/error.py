"""Exports, under the module name of Beam, errors."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.lowlevel.errors import HeadraceError
from headrace.options.value_provider import RuntimeValueProviderError
from headrace.sdk.graph.side_inputs import SideInputError
from headrace.sdk.recording.stored_cells import UnknownStepError

__all__ = ["BeamError", "RuntimeValueProviderError", "SideInputError", "UnknownStepError"]

BeamError = HeadraceError
"""The base of all errors, under Beam's name."""

add_absent_names(__name__)
