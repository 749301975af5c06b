"""Exports, under the module name of Beam, keys that are divided into shards."""

from headrace.sdk.model.sharded_key import ShardedKey

__all__ = ["ShardedKey"]
