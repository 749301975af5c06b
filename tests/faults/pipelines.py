"""A pipeline of the high level for the fault suite: sessions that merge, and a step with state and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import headrace as beam
from headrace.lowlevel import CallSink, Topology
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import BagStateSpec, CombiningValueStateSpec, TimerSpec, on_timer
from headrace.transforms.window import FixedWindows, Sessions, TimestampedValue

GAP, WINDOW = 12, 40


class Ledger(beam.DoFn):
    """At the end of a key's window: what came, and how often."""

    SEEN = BagStateSpec("seen")
    COUNT = CombiningValueStateSpec("count", sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        window=beam.DoFn.WindowParam,
        seen=beam.DoFn.StateParam(SEEN),
        count=beam.DoFn.StateParam(COUNT),
        end=beam.DoFn.TimerParam(END),
    ) -> None:
        seen.add(pair[1])
        count.add(1)
        end.set(window.end)

    @on_timer(END)
    def close(
        self,
        key=beam.DoFn.KeyParam,
        window=beam.DoFn.WindowParam,
        seen=beam.DoFn.StateParam(SEEN),
        count=beam.DoFn.StateParam(COUNT),
    ) -> Iterable[object]:
        yield key, int(window.start), count.read(), tuple(sorted(seen.read()))


@dataclass(frozen=True)
class Script:
    """Elements of a seed, in the order in which they come."""

    seed: int
    elements: list[tuple[str, int, int]] = field(init=False)
    """Key, number, second."""

    def __post_init__(self) -> None:
        random = Random(f"script {self.seed}")
        made = [("abc"[random.randrange(3)], number, random.randrange(120)) for number in range(24)]
        object.__setattr__(self, "elements", sorted(made, key=lambda element: element[2] + random.randrange(30)))

    def topology(self, sink: Callable[[str], CallSink]) -> Topology:
        """The pipeline, as a runner gets it."""
        pipeline = beam.Pipeline("LocalRunner")
        pairs = pipeline | self._stream()
        sessions = pairs | "Sessions" >> beam.WindowInto(Sessions(GAP)) | "Sum" >> beam.CombinePerKey(sum)
        _ = sessions | "Named" >> beam.Map(_session) | "To sessions" >> beam.io.Write(sink("sessions"))
        windows = pairs | "Windows" >> beam.WindowInto(FixedWindows(WINDOW))
        _ = windows | "Ledger" >> beam.ParDo(Ledger()) | "To ledger" >> beam.io.Write(sink("ledger"))
        return pipeline.topology()

    def _stream(self) -> TestStream:
        stream, random, at, watermark = TestStream(), Random(f"stream {self.seed}"), 0, 0
        while at < len(self.elements):
            some = self.elements[at : at + random.randint(1, 8)]
            at += len(some)
            stream = stream.add_elements([TimestampedValue((key, number), second) for key, number, second in some])
            oldest = min((second for *_, second in self.elements[at:]), default=1000)
            if oldest > watermark:
                stream, watermark = stream.advance_watermark_to(oldest), oldest
        return stream.advance_watermark_to_infinity()

    def expected(self) -> dict[str, list[object]]:
        """Sink -> values."""
        ledger: dict[tuple[str, int], list[int]] = {}
        for key, number, second in self.elements:
            ledger.setdefault((key, second // WINDOW * WINDOW), []).append(number)
        lines = [(key, start, len(numbers), tuple(sorted(numbers))) for (key, start), numbers in ledger.items()]
        return {"sessions": self._sessions(), "ledger": [*lines]}

    def _sessions(self) -> list[object]:
        made: list[object] = []
        for key in "abc":
            its = sorted((second, number) for name, number, second in self.elements if name == key)
            while its:
                size = next((at for at in range(1, len(its)) if its[at][0] - its[at - 1][0] >= GAP), len(its))
                session, its = its[:size], its[size:]
                made.append((key, sum(number for _, number in session), session[0][0], session[-1][0] + GAP))
        return made


def _session(pair: tuple[str, int], window=beam.DoFn.WindowParam) -> object:
    return (*pair, int(window.start), int(window.end))
