"""Under the name that Beam programs import: keys cut into shards."""

from headrace.sdk.shardedkey import ShardedKey

__all__ = ["ShardedKey"]
