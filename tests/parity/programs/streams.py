"""When: elements in time, late and too late, under triggers on the watermark."""

from __future__ import annotations

from tests.parity.masks import BORDER, FACT_2, Mask
from tests.parity.watching import IN_TIME_AND_LATE, UNSAFE, patient, streaming, watch


@streaming
def stream_default_trigger(beam, p):
    return watch(beam, p, [0, [(1, 1), (2, 4)], [(4, 6)], 10, [(8, 12)], 20, [(16, 25)]])


@streaming(masks=(Mask(BORDER, only_beam=("('k', 8)", "('k', 16)")),))
def stream_default_trigger_drops_late(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE)


@streaming
def stream_default_trigger_with_lateness(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, allowed_lateness=10)


@streaming
def stream_default_trigger_accumulating(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, beam.trigger.DefaultTrigger(), "ACCUMULATING", allowed_lateness=10)


@streaming
def stream_after_watermark(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark())


@streaming(flags=UNSAFE)
def stream_after_watermark_with_lateness(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(), allowed_lateness=20)


@streaming
def stream_late_counts(beam, p):
    return watch(
        beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1)), allowed_lateness=20
    )


@streaming
def stream_late_counts_accumulating(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    return watch(beam, p, IN_TIME_AND_LATE, trigger, "ACCUMULATING", allowed_lateness=20)


@streaming
def stream_late_counts_of_two(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(2))
    script = [0, [(1, 1)], 10, [(2, 1)], [(4, 2)], [(8, 3), (16, 4), (32, 5)], 20]
    return watch(beam, p, script, trigger, **patient(beam))


@streaming
def stream_early_counts(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2)))


@streaming
def stream_early_counts_accumulating(beam, p):
    return watch(
        beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2)), "ACCUMULATING"
    )


@streaming
def stream_early_count_of_a_whole_bundle(beam, p):
    script = [0, [(1 << place, place) for place in range(5)], 10, [(32, 1)], [(64, 2)]]
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2), late=beam.trigger.AfterCount(1))
    return watch(beam, p, script, trigger, allowed_lateness=100)


@streaming
def stream_early_and_late_counts(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1), late=beam.trigger.AfterCount(1))
    return watch(beam, p, IN_TIME_AND_LATE, trigger, allowed_lateness=20)


@streaming
def stream_early_and_late_counts_accumulating(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1), late=beam.trigger.AfterCount(1))
    return watch(beam, p, IN_TIME_AND_LATE, trigger, "ACCUMULATING", allowed_lateness=20)


@streaming
def stream_early_and_late_counts_repeatedly(beam, p):
    count = beam.trigger.Repeatedly(beam.trigger.AfterCount(2))
    trigger = beam.trigger.AfterWatermark(early=count, late=count)
    script = [0, [(1, 1)], [(2, 2)], [(4, 3), (8, 4)], [(16, 5)], 10, [(32, 6)], [(64, 7)], [(128, 8), (256, 9)], 20]
    return watch(beam, p, script, trigger, "ACCUMULATING", **patient(beam))


@streaming
def stream_empty_on_time_pane(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1))
    return watch(beam, p, [0, [(1, 1)], [(2, 2)], 10, [(4, 15)], 30], trigger)


@streaming
def stream_empty_on_time_pane_accumulating(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1))
    return watch(beam, p, [0, [(1, 1)], [(2, 2)], 10, [(4, 15)], 30], trigger, "ACCUMULATING")


@streaming
def stream_first_element_is_late(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    return watch(beam, p, [0, 15, [(1, 3)], [(2, 4)], 20], trigger, "ACCUMULATING", allowed_lateness=100)


@streaming
def stream_first_element_is_late_default_trigger(beam, p):
    return watch(beam, p, [0, 15, [(1, 3)], [(2, 4)], 20], allowed_lateness=100)


@streaming
def stream_elements_at_the_end_of_lateness(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    return watch(beam, p, [0, [(1, 3)], 10, 19, [(2, 3)], 21, [(4, 3)], 30, [(8, 3)]], trigger, allowed_lateness=10)


@streaming
def stream_several_keys(beam, p):
    script = [
        0,
        [(("a", 1), 1), (("b", 2), 2), (("a", 4), 3)],
        [(("b", 8), 4)],
        10,
        [(("a", 16), 5), (("c", 32), 6)],
        20,
    ]
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2), late=beam.trigger.AfterCount(1))
    return watch(beam, p, script, trigger, allowed_lateness=100)


@streaming(flags=UNSAFE)
def stream_lateness_without_late_trigger(beam, p):
    return watch(
        beam, p, [0, [(1, 1)], 10, [(2, 2)], 12, [(4, 3)], 30], beam.trigger.AfterWatermark(), allowed_lateness=5
    )


@streaming
def stream_watermark_moves_in_steps(beam, p):
    script = [0, [(1, 1)], 3, [(2, 2)], 9, [(4, 9)], 10, 11, 19, [(8, 19)], 20, 25]
    return watch(beam, p, script, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)), "ACCUMULATING")


@streaming
def stream_watermark_passes_many_windows(beam, p):
    script = [0, [(1 << place, place * 7) for place in range(10)], 200, [(1, 3), (2, 210)]]
    return watch(beam, p, script, allowed_lateness=5)


@streaming
def stream_late_but_window_still_open(beam, p):
    return watch(beam, p, [0, [(1, 1)], 8, [(2, 2)], [(4, 7)], 9, [(8, 3)], 10, 30])


@streaming(masks=(Mask(FACT_2, only_ours=("('k', 6)",)),))
def stream_closing_pane(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(3))
    return watch(beam, p, [0, [(1, 1)], 10, [(2, 3)], [(4, 4)], 200], trigger, **patient(beam))
