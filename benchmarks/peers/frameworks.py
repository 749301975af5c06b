"""Other Python stream processors. Each has an environment of its own: `python -m benchmarks.peers.install`."""

from __future__ import annotations

from benchmarks.peers.environment import BYTEWAX, PATHWAY
from benchmarks.peers.process import foreign_peer
from benchmarks.workload import W1, W2, W3

_ALL = (W1.name, W2.name, W3.name)

BYTEWAX_ONE = foreign_peer(
    "Bytewax", BYTEWAX, "with_bytewax", _ALL, events=500_000, arguments=["1"], note="one worker, in memory"
)
BYTEWAX_TWO = foreign_peer(
    "Bytewax, two workers", BYTEWAX, "with_bytewax", _ALL, events=500_000, arguments=["2"], note="two processes"
)
BYTEWAX_DURABLE = foreign_peer(
    "Bytewax, recovery",
    BYTEWAX,
    "with_bytewax",
    _ALL,
    events=200_000,
    arguments=["1", "recovery"],
    note="one worker, its recovery store written every second",
)
PATHWAY_STATIC = foreign_peer(
    "Pathway static", PATHWAY, "with_pathway", _ALL, events=100_000, arguments=["static"], note="one worker, in memory"
)
PATHWAY_STREAMING = foreign_peer(
    "Pathway streaming",
    PATHWAY,
    "with_pathway",
    (W1.name, W3.name),
    events=200_000,
    arguments=["streaming"],
    note="one worker, in memory, file by file",
)
FRAMEWORKS = [BYTEWAX_ONE, BYTEWAX_TWO, BYTEWAX_DURABLE, PATHWAY_STATIC, PATHWAY_STREAMING]
