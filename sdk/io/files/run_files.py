"""How a run recognizes files that it has written after the commit from which it goes on.

They are there if the run has gone on from another copy of its checkpoint since: somebody has restored a backup, say.
Epochs may be cut in another way this time, so the rows would be there twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256
from secrets import token_hex

from headrace.sdk.io.files.durable_files import folder_of
from headrace.sdk.io.files.output_files import Output, OutputName, Receipt, StagedFile

_TAG = re.compile(r"-\d{6,}-([0-9a-f]{8})[0-9a-f]{4}-\d{5,}")
"""Epoch, number of the run, hash of the set of files, number: part of the name of a file that is added to others."""


class RunFiles:
    """The number of a run, and how many files it hides; both are in each commit, as a part of `EpochFileSink.held`.

    A run of 0.1.0 gets a number with its first start by a later release. Files that it has written before are those of
    no known run.
    """

    def __init__(self) -> None:
        self.run = ""
        """Eight hexadecimal digits; empty if the run has none yet."""
        self.hidden: int | None = None
        """How many files of a bounded collection the run has delivered; None if that is not known."""

    def begin(self, anew: bool) -> None:
        """Forget the run before; one that begins anew draws a number."""
        self.run, self.hidden = (token_hex(4), 0) if anew else ("", None)

    def committed(self, receipts: Sequence[Receipt], output: OutputName) -> None:
        """Take what the receipts of a commit say of the run and of an output, these receipts' files included."""
        self.run = next((receipt.run for receipt in receipts if receipt.run), self.run)
        own = [receipt for receipt in receipts if receipt.output == output]
        held = next((receipt.hidden for receipt in own if receipt.hidden is not None), None)
        self.hidden = None if held is None else held + sum(len(receipt.parts) for receipt in own)

    def held(self) -> str:
        """The number of the run for the next commit."""
        self.run = self.run or token_hex(4)
        return self.run

    def count_hidden(self, output: Output, columns: Sequence[str]) -> None:
        """Complete what no commit says yet, after the first delivery of a run that goes on."""
        if self.hidden is None and not output.has_shards(columns):
            self.hidden = len(output.committed_files())

    def tag(self, parts: Sequence[StagedFile]) -> str:
        """The letters that names of added files have, so that no two runs deliver files with equal names."""
        return self.run + _hash(parts)[: 12 - len(self.run)]

    def tags(self, parts: Sequence[StagedFile]) -> list[str]:
        """What an earlier start of the run may have put there: with another `if_exists`, or another release."""
        return [self.tag(parts), _hash(parts)[:12], ""]

    def later(self, output: Output, columns: Sequence[str], epoch: int, replaced: Collection[str]) -> list[str]:
        """Paths of files that the run has not written up to this epoch, where it writes alone."""
        shown = [path for info in output.delivered(columns) if (path := str(info.path)) not in replaced]
        found = [*shown, *(f"{output.committed.folder}/{path}" for path in output.committed_files())]
        later = [path for path in found if path not in replaced and _epoch(output, path) > epoch]
        if later or self.hidden is None:
            return later
        shards = {path: number for path in shown if (number := output.shards(path.rpartition("/")[2]))}
        # The name of each has the number of all in its folder, so the number is known also if some were taken away.
        in_all = sum({folder_of(path): number for path, number in shards.items()}.values())
        return [*shards] if in_all > self.hidden else []

    def later_beside_others(self, output: Output, columns: Sequence[str], epoch: int) -> list[str]:
        """Paths of files that this run has written after this epoch, beside those of other runs."""
        infos = output.delivered(columns) if self.run else []
        later = [path for info in infos if _epoch(output, path := str(info.path)) > epoch]
        return [path for path in later if (tag := _TAG.search(path.rpartition("/")[2])) and tag[1] == self.run]


def _hash(parts: Sequence[StagedFile]) -> str:
    return sha256("\n".join(part.name for part in parts).encode()).hexdigest()


def _epoch(output: Output, path: str) -> int:
    return output.epoch(path.rpartition("/")[2]) or 0
