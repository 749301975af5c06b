"""Under the name that Beam programs import: transforms made of others."""

from headrace.sdk.transforms.group import CoGroupByKey

__all__ = ["CoGroupByKey"]
