"""What: one shard of a key (`apache_beam.utils.sharded_key`)."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.stored_names import stored_as


@stored_as("ShardedKey")
class ShardedKey(NamedTuple):
    """A key, and the id of one of its shards.

    >>> ShardedKey("britney", b"1").key
    'britney'
    """

    key: object
    shard_id: bytes
