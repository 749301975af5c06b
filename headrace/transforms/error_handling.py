"""Exports, under the module name of Beam, error handlers, which collect the bad elements of steps."""

from headrace.sdk.transforms.util.error_handler import CollectingErrorHandler, ErrorHandler

__all__ = ["CollectingErrorHandler", "ErrorHandler"]
