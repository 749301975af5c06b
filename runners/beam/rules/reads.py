"""Translation of `Read`, of `ReadFromParquet`, and of the splittable DoFn that reads bounded sources."""

from __future__ import annotations

from apache_beam.io import iobase, parquetio
from apache_beam.pipeline import AppliedPTransform

from headrace.runners.beam.functions.direct_fns import BeamPlainDoFn
from headrace.runners.beam.io.parquet_rows import DictsOfTables, steps_of_rows
from headrace.runners.beam.io.sources import ReadSourceBundle, SourceInjector, SplitBoundedSource
from headrace.runners.beam.translation import Rule, Translation
from headrace.sdk.transforms.core.low_level import Read
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.transforms.core.reshuffle import Reshuffle


def _read(made: Translation, step: AppliedPTransform) -> None:
    source = step.transform.source
    if isinstance(source, iobase.BoundedSource):
        made.put(step, made.pipeline | step.full_label >> Read(SourceInjector(source)))
    else:
        made.enter(step)


def _read_rows(made: Translation, step: AppliedPTransform) -> None:
    parts = steps_of_rows(step)
    if parts is None:
        made.enter(step)
        return
    read, rows = parts
    injector = SourceInjector(read.transform.source, DictsOfTables(rows.full_label))
    made.put(rows, made.pipeline | read.full_label >> Read(injector))


def _read_sources(made: Translation, step: AppliedPTransform) -> None:
    label = step.full_label
    bundles = made.source(step) | f"{label}/Split" >> ParDo(BeamPlainDoFn(SplitBoundedSource()))
    read = ParDo(BeamPlainDoFn(ReadSourceBundle()))
    made.put(step, bundles | f"{label}/Reshuffle" >> Reshuffle() | label >> read)


RULES: dict[type, Rule] = {
    iobase.Read: _read,
    iobase.SDFBoundedSourceReader: _read_sources,
    parquetio.ReadFromParquet: _read_rows,
}
