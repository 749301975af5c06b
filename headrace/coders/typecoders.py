"""Exports, under the module name of Beam, the registry of coders by type."""

from headrace.sdk.coders.registry import CoderRegistry, registry

__all__ = ["CoderRegistry", "registry"]
