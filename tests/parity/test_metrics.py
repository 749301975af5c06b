"""The same program counts the same under two packages: Beam's metrics are the oracle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

import pytest

from headrace.runners.local import LocalRunner

pytestmark = pytest.mark.parity

_PHASES = re.compile(r"/(Precombine|Merge|ExtractOutputs|ParDo\(CallableWrapperDoFn\))$")
"""What Beam makes steps of: the parts of a CombinePerKey, the ParDo of a function with several outputs."""
Counted = dict[tuple[str, str, str, str], object]
"""(kind, step, namespace, name) -> value."""


def life_cycle(beam, metrics, p):
    """Every hook of a DoFn between setup and teardown, in two steps that fuse."""

    class Life(beam.DoFn):
        def __init__(self, name):
            self.seen = metrics.counter("life", name)
            self.sizes = metrics.distribution(self.__class__.__name__, "sizes")

        def start_bundle(self):
            metrics.counter("life", "bundles").inc()

        def process(self, element):
            self.seen.inc()
            yield element
            self.seen.inc(2)
            self.sizes.update(element)
            yield element + 10

        def finish_bundle(self):
            metrics.counter("life", "bundles").dec(3)

    return p | beam.Create([1, 2, 3]) | beam.ParDo(Life("first")) | "Again" >> beam.ParDo(Life("second"))


def functions(beam, metrics, p):
    """Plain functions, alone and inside a composite transform, one metric in several steps."""

    def tell(element, by=1):
        metrics.counter("functions", "told").inc(by)
        metrics.string_set("functions", "what").add(str(element))
        return element

    @beam.ptransform_fn
    def outer(numbers):
        return numbers | "In" >> beam.Map(tell) | "Odd" >> beam.Filter(lambda x: tell(x, 2) % 2)

    numbers = p | beam.Create(range(5))
    numbers | "Twice" >> beam.FlatMap(lambda x: [tell(x)] * 2) | "After" >> beam.Map(tell)
    return numbers | "Outer" >> outer()


def tagged(beam, metrics, p):
    """Outputs with tags, windows and timestamps, and what reads them."""

    def halves(element):
        metrics.distribution("tagged", "all").update(-element)
        yield beam.window.TimestampedValue(element, element)
        if element % 2:
            yield beam.pvalue.TaggedOutput("odd", element)

    def seen(element, window=beam.DoFn.WindowParam):
        metrics.counter("tagged", f"until {int(window.end)}").inc()
        return element

    made = p | beam.Create(range(7)) | "Halves" >> beam.ParDo(halves).with_outputs("odd", main="all")
    made.odd | "Odd" >> beam.Map(lambda x: metrics.gauge("tagged", "last").set(7) or x)
    return made["all"] | beam.WindowInto(beam.window.SlidingWindows(4, 2)) | "Seen" >> beam.Map(seen)


def combiners(beam, metrics, p):
    """A CombineFn before and after the shuffle, and what comes behind it."""

    class Total(beam.CombineFn):
        def create_accumulator(self):
            return 0

        def add_input(self, accumulator, element):
            metrics.counter("combine", "added").inc()
            metrics.distribution("combine", "elements").update(element)
            return accumulator + element

        def merge_accumulators(self, accumulators):
            return sum(accumulators)

        def extract_output(self, accumulator):
            metrics.counter("combine", "extracted").inc(accumulator)
            return accumulator

    def grouped(pair):
        metrics.distribution("combine", "values").update(sum(pair[1]))

    pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 4)])
    pairs | beam.GroupByKey() | "Grouped" >> beam.Map(grouped)
    sessions = pairs | beam.WindowInto(beam.window.Sessions(3))
    sessions | "Not lifted" >> beam.CombinePerKey(Total())
    totals = pairs | "Lifted" >> beam.CombinePerKey(Total())
    return totals | "Count" >> beam.Map(lambda _: metrics.counter("c", "after").inc())


PROGRAMS: list[Callable[..., object]] = [life_cycle, functions, tagged, combiners]


def counted(result) -> Counted:
    """What a query without filter gives, gauges without their time, a combiner's phases as one step."""
    found: dict[tuple[str, str, str, str], list[object]] = defaultdict(list)
    for kind, results in result.metrics().query().items():
        for one in results:
            value = one.result
            if kind == "gauges":
                value = value.value
            elif kind == "distributions":
                value = (value.sum, value.count, value.min, value.max, value.mean)
            name = one.key.metric
            assert one.committed == one.attempted
            found[kind, _PHASES.sub("", one.key.step), name.namespace, name.name].append(value)
    assert all(len(values) == 1 for values in found.values()), "each is reported by one phase here"
    return {key: values[0] for key, values in found.items()}


def under_beam(build: Callable[..., object]) -> Counted:
    import apache_beam
    from apache_beam.metrics import Metrics
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    p = apache_beam.Pipeline(FnApiRunner())
    build(apache_beam, Metrics, p)
    return counted(p.run())


def under_headrace(build: Callable[..., object], runner: object) -> Counted:
    import headrace
    from headrace.metrics import Metrics

    p = headrace.Pipeline(runner)
    build(headrace, Metrics, p)
    return counted(p.run())


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_as_beam(build):
    theirs = under_beam(build)
    assert theirs and under_headrace(build, LocalRunner(intervals=3)) == theirs


@pytest.mark.spark
def test_as_locally_on_spark(spark):
    from headrace.runners.spark import SparkRunner

    def together(beam, metrics, p):
        for build in (functions, tagged, combiners):
            p | build.__name__ >> beam.ptransform_fn(lambda begin, build=build: build(beam, metrics, begin))()

    assert under_headrace(together, SparkRunner(spark, intervals=2)) == under_headrace(together, LocalRunner())
