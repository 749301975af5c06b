"""Exports, under the module name of Beam, values of options that are read while a pipeline runs."""

from headrace.sdk.value_provider import (
    NestedValueProvider,
    RuntimeValueProvider,
    StaticValueProvider,
    ValueProvider,
    check_accessible,
)

__all__ = ["NestedValueProvider", "RuntimeValueProvider", "StaticValueProvider", "ValueProvider", "check_accessible"]
