"""Under the name that Beam programs import: elements that came a short while before are left out."""

from headrace.sdk.transforms.deduplicate import Deduplicate, DeduplicatePerKey

__all__ = ["Deduplicate", "DeduplicatePerKey"]
