"""Translation of `Read`."""

from __future__ import annotations

from apache_beam.io import iobase
from apache_beam.pipeline import AppliedPTransform

from headrace.runners.beam.sources import Splits, read_split
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.par_do import FlatMap


def _read(made: Translation, step: AppliedPTransform) -> None:
    source = step.transform.source
    if not isinstance(source, iobase.BoundedSource):
        for part in step.parts:
            made.translate(part)
        return
    splits = made.pipeline | f"{step.full_label}/Splits" >> Create(Splits.of(source))
    made.put(step, splits | step.full_label >> FlatMap(read_split))


RULES: dict[type, Rule] = {
    iobase.Read: _read,
}
