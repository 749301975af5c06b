"""Exports, under the module name of Beam, transforms that drop repeated elements."""

from headrace.sdk.transforms.util.deduplicate import Deduplicate, DeduplicatePerKey

__all__ = ["Deduplicate", "DeduplicatePerKey"]
