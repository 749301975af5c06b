"""When: counts, and triggers made of triggers, on streams."""

from __future__ import annotations

from tests.parity.masks import FACT_2, HELD, Mask
from tests.parity.watching import UNSAFE, patient, streaming, watch


@streaming
def stream_counts_repeatedly(beam, p):
    script = [0, [(1, 1)], [(2, 2)], [(4, 3), (8, 4), (16, 5)], [(32, 12), (64, 13)], 30]
    return watch(beam, p, script, beam.trigger.Repeatedly(beam.trigger.AfterCount(2)))


@streaming
def stream_counts_repeatedly_accumulating(beam, p):
    script = [0, [(1, 1)], [(2, 2)], [(4, 3), (8, 4), (16, 5)], [(32, 12), (64, 13)], 30]
    return watch(beam, p, script, beam.trigger.Repeatedly(beam.trigger.AfterCount(1)), "ACCUMULATING")


@streaming
def stream_counts_repeatedly_in_the_global_window(beam, p):
    script = [0, [(1, 1)], [(2, 2)], [(4, 3), (8, 4), (16, 5)], [(32, 12), (64, 13)], 30]
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterCount(1))
    return watch(beam, p, script, trigger, "ACCUMULATING", beam.window.GlobalWindows())


@streaming
def stream_any_of_two_counts(beam, p):
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterAny(beam.trigger.AfterCount(2), beam.trigger.AfterCount(3)))
    return watch(beam, p, [0, [(1, 1)], [(2, 2), (4, 3)], [(8, 4), (16, 5)], 30], trigger)


@streaming
def stream_all_of_two_counts(beam, p):
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterAll(beam.trigger.AfterCount(2), beam.trigger.AfterCount(3)))
    return watch(beam, p, [0, [(1, 1), (2, 1)], [(4, 2)], [(8, 3), (16, 4), (32, 5)], 30], trigger)


@streaming
def stream_each_count_in_turn(beam, p):
    counts = [beam.trigger.AfterCount(1), beam.trigger.AfterCount(2)]
    trigger = beam.trigger.Repeatedly(beam.trigger.AfterEach(*counts))
    return watch(beam, p, [0, [(1, 1)], [(2, 2)], [(4, 3)], [(8, 4)], [(16, 5), (32, 6)], 30], trigger, "ACCUMULATING")


@streaming(flags=UNSAFE)
def stream_counts_or_finally(beam, p):
    repeated = beam.trigger.Repeatedly(beam.trigger.AfterCount(1))
    trigger = beam.trigger.OrFinally(repeated, beam.trigger.AfterCount(3))
    return watch(beam, p, [0, [(1, 1)], [(2, 2)], [(4, 3)], [(8, 4)], 30], trigger)


@streaming
def stream_always(beam, p):
    return watch(beam, p, [0, [(1, 1)], [(2, 2), (4, 3)], 10, [(8, 14)], 30], beam.trigger.Always(), "ACCUMULATING")


@streaming(flags=UNSAFE)
def stream_one_count_then_finished(beam, p):
    return watch(
        beam, p, [0, [(1, 1)], [(2, 2), (4, 3)], [(8, 4)], [(16, 12), (32, 13)], 30], beam.trigger.AfterCount(2)
    )


@streaming(masks=(Mask(HELD, ("timing", "nonspeculative_index")), Mask(FACT_2, only_ours=("('k', 4)",))))
def stream_counts_repeatedly_over_the_end(beam, p):
    script = [0, [(1, 1)], 11, [(2, 1)], 20, [(4, 3)], 30, [(8, 33)], [(16, 34)], 50]
    return watch(beam, p, script, beam.trigger.Repeatedly(beam.trigger.AfterCount(2)), **patient(beam))


@streaming
def stream_counts_repeatedly_late(beam, p):
    script = [0, [(1, 1)], 11, [(2, 1)], 20, [(4, 3)], 30, [(8, 33)], [(16, 34)], 50]
    return watch(beam, p, script, beam.trigger.Repeatedly(beam.trigger.AfterCount(1)), allowed_lateness=100)


@streaming
def stream_always_first_late(beam, p):
    script = [0, 11, [(1, 1)], [(2, 1)], 20, [(4, 3)], [(8, 33)], 50]
    return watch(beam, p, script, beam.trigger.Always(), "ACCUMULATING", allowed_lateness=100)
