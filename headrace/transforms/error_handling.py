"""Under the name that Beam programs import: what takes the bad elements of many steps."""

from headrace.sdk.transforms.errorhandler import CollectingErrorHandler, ErrorHandler

__all__ = ["CollectingErrorHandler", "ErrorHandler"]
