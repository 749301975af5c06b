"""Exports, under the module name of Beam, errors."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.lowlevel.errors import HeadraceError
from headrace.options.value_provider import RuntimeValueProviderError
from headrace.sdk.graph.side_inputs import SideInputError

__all__ = ["BeamError", "RuntimeValueProviderError", "SideInputError"]

BeamError = HeadraceError
"""The base of all errors, under Beam's name."""

add_absent_names(__name__)
