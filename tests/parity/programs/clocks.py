"""When: triggers on processing time. The wall clock is one for all, so each of these needs a pipeline of its own."""

from __future__ import annotations

from tests.parity.masks import FACT_1, Mask
from tests.parity.watching import Clock, on_the_clock, patient, under_one_key, watch


@on_the_clock
def clock_panes_grouped_again(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], Clock(11), [(2, 2)], Clock(11), 12, [(4, 60)], 100]
    return under_one_key(beam, watch(beam, p, script, trigger))


@on_the_clock
def clock_early_panes(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], Clock(5), [(2, 2)], Clock(6), [(4, 3)], Clock(20), 10, [(8, 15)], Clock(3), 30]
    return watch(beam, p, script, trigger)


@on_the_clock
def clock_early_panes_accumulating(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], Clock(5), [(2, 2)], Clock(6), [(4, 3)], Clock(20), 10, [(8, 15)], Clock(3), 30]
    return watch(beam, p, script, trigger, "ACCUMULATING")


@on_the_clock
def clock_early_panes_of_several_keys(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterProcessingTime(10))
    script = [0, [(("a", 1), 1)], Clock(5), [(("b", 2), 2), (("a", 4), 3)], Clock(6), Clock(6), 10, 30]
    return watch(beam, p, script, trigger)


@on_the_clock
def clock_repeatedly(beam, p):
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], Clock(11), [(2, 2)], Clock(3), [(4, 3)], Clock(8), [(8, 4)], Clock(30), 30]
    return watch(beam, p, script, trigger)


@on_the_clock
def clock_repeatedly_in_the_global_window(beam, p):
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], Clock(11), [(2, 2)], Clock(3), [(4, 300)], Clock(8), [(8, 4)], Clock(30)]
    return watch(beam, p, script, trigger, "ACCUMULATING", beam.window.GlobalWindows())


@on_the_clock(masks=(Mask(FACT_1, ("timing",)),))
def clock_late_panes(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], 10, [(2, 2)], Clock(5), [(4, 3)], Clock(5), [(8, 4)], Clock(20), 30]
    return watch(beam, p, script, trigger, **patient(beam))


@on_the_clock(masks=(Mask(FACT_1, ("timing",)),))
def clock_early_counts_late_clock(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2), late=beam.trigger.AfterProcessingTime(10))
    script = [0, [(1, 1)], [(2, 2)], 10, [(4, 3)], Clock(11), [(8, 4)], Clock(11), 30]
    return watch(beam, p, script, trigger, "ACCUMULATING", **patient(beam))


@on_the_clock
def clock_without_effect(beam, p):
    return watch(beam, p, [0, [(1, 1)], Clock(100), [(2, 2)], Clock(100), 10, Clock(100), 30])
