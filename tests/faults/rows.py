"""The 21 faults of `docs/reliability.md`: what each is, how it is injected, and which further tests show it.

`docs/internals/faults.md` is made of this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One fault."""

    fault: str
    how: str
    """How it is injected, and what is compared."""
    passes: str
    """When it counts as survived."""
    further: tuple[str, ...] = ()
    """Tests that belong to it and keep no tally."""


ROWS: dict[int, Row] = {
    1: Row(
        "kill at every step of the epoch protocol",
        "On the local runner a life dies at one moment of every kind that it has: each step of the protocol, each "
        "kind of store operation before its effect and after it, each delivery to a sink before and after. The "
        "topology has state, timers on both clocks, holds, two levels and a circle, its injector sends records "
        "again and connects anew with old ones; the pipeline has sessions that merge and a step with state and "
        "timers. With every other seed key intervals are split, merged and moved between any two epochs. Sizes of "
        "epochs, order of tasks and of arrival come from the seed. Outputs with their timestamps, state and "
        "counts are compared with an undisturbed life, and outputs with plain recomputation. Another topology has "
        "strong and weak productions side by side, and sinks that refuse or are slow; what is lost is counted there "
        "for both, what is doubled for strong ones. On Spark the driver's process gets SIGKILL.",
        "recovers within 60 s, output equal to an undisturbed run and to a batch recomputation",
        (
            "tests/faults/crashes/test_crash_at_every_step.py",
            "tests/faults/crashes/test_recovery_story.py",
            "tests/faults/crashes/test_retractions_survive.py",
            "tests/faults/crashes/test_side_inputs_survive.py",
            "tests/faults/crashes/test_zeitgeist_crashes.py",
        ),
    ),
    2: Row(
        "kill during recovery, twice running",
        "A life dies at any moment; the next two die at any moment between their start and the delivery of their "
        "first epoch: reading the log, lease, seal, receipts delivered again, the first epoch.",
        "the same",
        ("tests/faults/checkpoint/test_checkpoint_crash.py",),
    ),
    3: Row(
        "zombie writer: stopped, successor started, continued; a second driver; a task attempt that was replaced",
        "On the local runner a driver is stopped at any moment; one to three others start, each while the one "
        "before is stopped, work for some time, die or finish; then all go on. The store keeps the history of the "
        "log. Tasks run twice with different results, and what the first attempts wrote arrives after the commit "
        "of the second ones. On Spark a driver's process gets SIGSTOP, another one takes over, and the first gets "
        "SIGCONT.",
        "no stale write is accepted, and the loser says who fenced it",
        ("tests/faults/checkpoint/test_checkpoint_drivers.py",),
    ),
    4: Row(
        "executor killed in mid-epoch, its shuffle output lost, user code not deterministic",
        "User code draws other numbers each time. When half of a level's tasks have read what the level before "
        "drew, and half have not, the files of all shuffles are deleted; on a cluster of two executors one of "
        "them gets SIGKILL as well. The level before must then draw again. Compared: every target of a visit got "
        "it once, all with one number, which is also the one that state has. The test sees that numbers were "
        "drawn again.",
        "the epoch is tried again, no mixture of attempts",
        ("tests/faults/attempts/test_strong_productions.py", "tests/spark/faults/test_executors.py"),
    ),
    5: Row(
        "torn or flipped checkpoint file",
        "A small checkpoint has files of every kind: marker, leases, commits, a seal, deltas, a snapshot, and the "
        "bulk of a commit apart; once signed and once not. Every file is lost, made longer, cut at every byte and "
        "changed at every byte, each alone. A reader that looks at everything and the next driver must both refuse"
        " it, naming the file, or find exactly what was true after some epoch: the last one where the file is not "
        "needed any more, the one before where the last commit is lost.",
        "refused by name, or the previous epoch recovered; silently wrong never",
    ),
    6: Row(
        "disk full at each write",
        "A small disk (a tmpfs of the test's own; where the system allows none, a limit on files) is filled to the"
        " last byte before each write of a checkpoint, at each step of a run on the local runner, before state stores"
        " are made and before they grow; on Spark with the checkpoint, the state stores, or Spark's own local "
        "directories on it. When there is space again, the same program goes on. Compared: what the sinks "
        "got with an undisturbed run; nothing half-written is left.",
        "stops naming the path; goes on exactly",
    ),
    7: Row(
        "clock skew of an hour, and backwards",
        "The wall clock jumps by up to an hour, forwards or back, whenever the driver looks at it; timers on wall "
        "time are set meanwhile. With every other seed the driver dies as well and another one looks at such a "
        "clock. Compared with a run by a steady clock: outputs with their timestamps, and the course of the "
        "watermark, whose steps back are counted.",
        "no watermark goes back; event-time output is identical",
    ),
    8: Row(
        "order of arrival",
        "Random elements in fixed, sliding and session windows come all at once, one by one, in pairs, in order of "
        "time, newest first, and shuffled in threes; a fault is one such set of elements. Compared: what each key "
        "and window ends with.",
        "final panes are identical",
    ),
    9: Row(
        "duplicates × 1 to 5, also across a restart",
        "A source sends records up to five times, together and later, and begins each new connection with old "
        "ones; drivers die at any moment in between. Ids are kept just as long as the source reaches back. "
        "Compared: outputs with a recomputation without repeats, records read with those processed and those "
        "dropped, and the number of ids in the checkpoint with the number of records that may still come again.",
        "no extra output; memory of ids bounded",
    ),
    10: Row(
        "late by −1, 0, +1 µs",
        "A table of elements at, just before and just behind the watermark, the end of their window and its "
        "closing, each with its fate; through a grouping, a raw computation, and a whole pipeline on both runners. "
        "Records are those that contributed and those that were dropped.",
        "classified exactly; every record is accounted for",
    ),
    11: Row(
        "poison records, 1 %",
        "On both runners one record in a hundred makes user code raise, after it has changed state and produced "
        "something. By default the run stops, twice, with what was committed before delivered exactly, and a mended "
        "program goes on to exactly everything. With dead letters of a computation, and with those of a `DoFn`, "
        "poison and all else are compared one by one.",
        "stops naming step and key; with a dead-letter output: the exact count",
        ("tests/properties/engine/test_poison.py",),
    ),
    12: Row(
        "malformed files",
        "Text, JSON, CSV and Parquet that are cut off, flipped, not text, too deep, too long, without or with "
        "impossible times, with other columns, unclosed quotations and much else, beside good files, on both "
        "runners; pipes, holes, folders, files that shrink, files that the user may not read. Odd but right ones "
        "(byte order marks, NUL, CR LF, the year 9999) must be read exactly. Each codec is damaged at each place "
        "of its streams, of blocks of Avro and of pages of Parquet, and read by each reader.",
        "no hang, no silent skip; the error has file and line",
        ("tests/unit/sdk/io/files/test_folder_life.py", "tests/unit/sdk/io/test_run_schema.py"),
    ),
    13: Row(
        "huge values, huge keys, very many keys",
        "Keys of 1 MiB, values of 64 MiB and a million keys go through state, timers and a second computation and "
        "are compared byte by byte; on Spark the most memory that a worker process had is asked of the system.",
        "memory bounded as documented (at most eight times what an epoch brings to a task, and 256 MiB), or refused "
        "before processing",
    ),
    14: Row(
        "hot key with 90 % of the records",
        "Ten epochs of which nine records in ten are of one key: combined, combined with fan-out, grouped, kept in "
        "state until a timer fires, and told of at once by a raw computation, on both runners. All results are "
        "compared with a recomputation; for those of other keys the epoch in which they came with the first in "
        "which they could.",
        "exact; other keys are at most two epochs behind",
    ),
    15: Row(
        "restarts and upgrades",
        "A program with state of every kind, timers on both clocks, holds, ids, records on a circle, sessions, "
        "retractions and a side input is stopped up to twenty times, each time at another step, and started again: "
        "as it was, with another number of intervals each time, on another runner in turn. It also goes on from "
        "what a release left behind in its middle (`tests/golden`), which is read and counted first. "
        "Intervals have a test of their own. Topologies are changed by seed while records flow, up to seven times a "
        "run: parts come, go and come back, what stays moves to other levels and back. What stays must give the "
        "outputs and leave the state of a run without any of that, what comes back must go on where it was; and "
        "drivers crash at and around each change, which leaves one topology or the other. Random programs are "
        "edited between two runs, in the test's process and as users start them: each step goes on with its own "
        "state or the start is refused.",
        "exact, or refused with the difference named",
        (
            "tests/faults/checkpoint/test_readers_of_history.py",
            "tests/faults/crashes/test_intervals_change.py",
            "tests/faults/crashes/test_topology_changes.py",
            "tests/properties/edits/test_edits.py",
            "tests/properties/edits/test_processes.py",
        ),
    ),
    16: Row(
        "closures or state that cannot be pickled",
        "Threads and their data, files, sockets, generators, databases, Spark sessions, also deep inside and last of "
        "thousands, in closures, defaults, globals, attributes and arguments of every kind of step: refused while "
        "the pipeline is built, with a runner that must not be asked; a topology before Spark and the checkpoint "
        "are looked at. State of every kind and values on their way are refused by step, key and value, on both "
        "runners.",
        "refused before anything runs, the variable named",
    ),
    17: Row(
        "soak: many keys, all windows closed",
        "A million keys come and go in fixed, sliding and session windows, in a `DoFn` with state and timers on "
        "both clocks, and in a raw computation with holds; records have ids and nothing is late. Sums are compared "
        "with a recomputation; what is left is counted in memory, and in the checkpoint of a run on Spark. That "
        "there was much of everything in the middle is seen too.",
        "no state, timer, id or hold is left",
    ),
    18: Row(
        "a cluster: executor, worker, network, disk, driver, speculation",
        "A standalone master and two workers, each in a network namespace with a Python environment and a disk of its "
        "own, once with the checkpoint in a shared folder and once on object storage. In mid-run an executor is "
        "killed; an executor and its Python processes are stopped until it counts as lost and epochs have gone on, and "
        "then continued; all processes of a worker are killed; a worker's network is cut for longer than anybody "
        "waits; its disk is filled to the last byte; the driver is killed and started again. One worker is slow, and "
        "Spark runs its tasks on the other one as well. Outputs are compared with a recomputation in plain Python; the "
        "driver's temporary folder is empty afterwards. It needs root and is left out without. Recovery is the time "
        "from the fault to the next commit, with timeouts of 10 s for executors and 15 s for workers.",
        "recovers by itself, output equal to the recomputation, both ways",
    ),
    19: Row(
        "loss of power",
        "A layer below all files remembers what was synced, file by file and folder by folder, and at a cut forgets "
        "the rest: what was not synced has happened or has not, drawn from the seed; files are empty, torn, full of "
        "zeros or whole. The power goes at a step of the epoch protocol, or before or after a sync, with every other "
        "seed once more while the next life recovers; then the run goes on. All sinks for files take turns: text, "
        "compressed text, JSON, CSV, Parquet, Parquet in folders, files of windows. Compared: the files that a reader "
        "finds with a recomputation. That the layer bites is tried too: with the syncs of each kind left out in turn, "
        "some seed fails. And once for real: a run in a process of its own writes to an ext4 file system in an image, "
        "is stopped in its middle, and the image is copied as it is; what is only in memory is lost. The copy is "
        "mounted and the run goes on there.",
        "every line is there once; nothing needs a person",
        ("tests/faults/checkpoint/test_checkpoint_gone.py",),
    ),
    20: Row(
        "the task that stays: killed, stopped, replaced, cut off; its executor and its driver killed or stopped",
        "While a task stays on Spark, its Python process gets SIGKILL, or SIGSTOP and two seconds later SIGCONT, or "
        "is stopped, cut off, and continued when other tasks have committed epochs; its executor gets SIGKILL, or is "
        "stopped with all that it runs until it counts as lost and epochs have gone on, and is then continued; the "
        "driver gets SIGKILL and is started again, or SIGSTOP, and SIGCONT when another one has gone on; the "
        "connection is cut from the driver's side or the task's. Each of these happens at each of ten moments: when "
        "the driver plans, has sent an epoch to the task, has an answer that it has not read, is about to commit, has "
        "committed, delivers, has delivered; at the first record in the task, after the last one, and while the "
        "sink's rows are staged. Without Spark, the connection is cut after every byte, from the proof of the secret "
        "to the farewell. Compared: the numbers and counts that came out, both ways.",
        "each number counted once, a cut epoch is run again, and another task stays afterwards; a replaced driver is "
        "told so",
        ("tests/spark/engine/test_resident_tasks.py",),
    ),
    21: Row(
        "the process that writes to a table, files or a topic, or reads what grows, is killed",
        "A pipeline writes to a table of SQLite, PostgreSQL, Delta Lake or Iceberg: it appends, upserts, or applies a "
        "change log that takes rows back. Others write files in five formats, which appear with each epoch, for each "
        "window or at the end, or send records to Kafka. The process gets SIGKILL at every moment: each step of the "
        "protocol, before each statement, before and after each commit, each data file, each version of a table, each "
        "delivery of files and each transaction of Kafka (not inside of one, as the broker of the tests shows what "
        "Kafka would hide); and, but for Kafka, at any time, from outside, up to five times until it has come to its "
        "end. On Spark the driver's process is killed, at moments drawn from the seed, again and again. Continuous "
        "readers of Delta and Iceberg tables, of a folder and of a topic are killed while versions, files and records "
        "appear. Compared: what a reader finds with a recomputation. Kills in memory are in rows 1 to 3.",
        "tables, files and topics equal those of an undisturbed run",
    ),
}
