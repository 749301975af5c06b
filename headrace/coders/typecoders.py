"""Under the name that Beam programs import: which coder goes with which type."""

from headrace.sdk.coders.registry import CoderRegistry, registry

__all__ = ["CoderRegistry", "registry"]
