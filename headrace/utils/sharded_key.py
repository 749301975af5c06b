"""Exports, under the module name of Beam, keys that are divided into shards."""

from headrace.sdk.transforms.util.group_into_batches import ShardedKey

__all__ = ["ShardedKey"]
