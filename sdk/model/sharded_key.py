"""What: a key that is cut into shards (`apache_beam.utils.sharded_key`)."""

from __future__ import annotations

from typing import NamedTuple


class ShardedKey(NamedTuple):
    """A key, and which of its shards.

    >>> ShardedKey("britney", b"1").key
    'britney'
    """

    key: object
    shard_id: bytes
