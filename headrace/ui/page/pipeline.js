// One pipeline: its status, its figures, and a panel for each thing that can be known of it.
import { EpochChart, IntervalStrip, sparkline, WatermarkChart } from "./charts.js";
import { bytes, count, duration, element, rate, say } from "./elements.js";
import { KeyExplorer, PanePlayer } from "./explorer.js";
import { Graph } from "./graph.js";
import { DataTable } from "./tables.js";

const SIGNS = { running: "▶", busy: "◔", waiting: "◷", silent: "?", dead: "✕", failed: "✕", finished: "✓", starting: "◌", empty: "○", unreadable: "!", unread: "…" };
const WORDS = { running: "running", busy: "long epoch", waiting: "waiting", silent: "no news", dead: "stopped", failed: "failed", finished: "finished", starting: "starting", empty: "not begun", unreadable: "unreadable", unread: "being read" };
const ONLY_STORED = "Only a checkpoint tells this. Run the pipeline with --checkpoint=PLACE.";

const text = (name) => (row) => row[name] ?? "";
const number = (name) => (row) => count(row[name]);

const STEPS = [
  { name: "step", value: text("step") },
  { name: "in", value: number("records_in"), number: true },
  { name: "in rate", value: (row) => rate(row.in_rate), number: true },
  { name: "out", value: number("records_out"), number: true },
  { name: "out rate", value: (row) => rate(row.out_rate), number: true },
  { name: "timers fired", value: (row) => row.timers ? count(row.timers) : "", number: true },
  { name: "watermark", value: (row) => row.watermark?.text ?? "" },
  { name: "lag", value: text("lag"), number: true },
  { name: "state", value: text("state"), number: true },
];
const LOST = [
  { name: "step", value: text("step") },
  ...[["late", "late"], ["dropped", "dropped"], ["duplicates", "duplicates"], ["dead-lettered", "dead_letters"]].map(([name, key]) => (
    { name, value: number(key), number: true, alarm: (row) => row[key] > 0 && key !== "late" })),
  { name: "lost of its input", number: true, value: (row) => {
    const lost = (row.dropped ?? 0) + (row.dead_letters ?? 0);
    return lost && row.records_in ? (100 * lost / row.records_in).toFixed(2) + " %" : "";
  } },
];
const WATERMARKS = [
  { name: "step", value: text("step") },
  { name: "input", value: (row) => row.input.text },
  { name: "output", value: (row) => row.output.text },
  { name: "stands still", value: (row) => row.still ? stoodFor(row) : "", alarm: (row) => Boolean(row.still) },
  { name: "input waits for", value: text("waits_for"), long: true },
  { name: "output held by", value: text("held_by"), long: true },
];
const EPOCHS = [
  { name: "epoch", value: number("epoch"), number: true },
  { name: "at (UTC)", value: (row) => new Date(row.clock * 1000).toISOString().slice(11, 19) },
  { name: "records", value: number("records"), number: true },
  { name: "all", value: (row) => duration(row.seconds), number: true },
  ...["tasks", "commit", "deliver"].map((name) => ({ name, value: (row) => name in row.phases ? duration(row.phases[name]) : "", number: true })),
];
const INTERVALS = [
  { name: "interval", value: number("number") },
  { name: "share of keys", value: (row) => (100 * (row.stop - row.start)).toFixed(1) + " %", number: true },
  { name: "task", value: number("task"), number: true },
  { name: "stored", value: (row) => bytes(row.size), number: true },
  { name: "last change", value: (row) => bytes(row.changed), number: true, alarm: (row) => row.hot },
  { name: "watermark", value: text("watermark") },
];
const SOURCES = [
  { name: "source", value: text("source") },
  { name: "watermark", value: text("watermark") },
  { name: "greatest seen", value: text("greatest") },
  { name: "ended", value: (row) => row.ended ? "yes" : "no" },
  { name: "position", value: text("position"), long: true },
];
const PENDING = [
  { name: "to", value: text("to") },
  { name: "records", value: number("records"), number: true },
  { name: "oldest", value: text("oldest") },
];

const GRAPH_AGAIN = 10000;

function panel(title, wide, ...children) {
  return element("div", { class: wide ? "panel wide" : "panel" }, element("h3", {}, title), ...children);
}

function stoodFor(step) {
  return (step.still_at_first ? "at least " : "") + duration(step.still);
}

function grouped(rows, name) {
  const groups = new Map();
  for (const row of rows) groups.set(name(row), [...(groups.get(name(row)) ?? []), row]);
  return groups;
}

function details(summary, ...children) {
  return element("details", {}, element("summary", {}, summary), ...children);
}

export class PipelineView {
  constructor(place, ask) {
    this.place = place;
    this.ask = ask;
    this.id = `pipeline${place}`;
    this.title = element("h2", { id: `${this.id}title` });
    this.chip = element("span", { class: "chip" });
    this.where = element("p", { class: "where" });
    this.sentence = element("p", { class: "sentence" });
    this.ago = element("span", { class: "ago" });
    this.problem = element("p", { class: "notice", hidden: true });
    this.stuck = element("div", { class: "notice", hidden: true });
    this.tiles = element("dl", { class: "tiles" });
    this.graph = new Graph();
    this.steps = new DataTable("Steps", STEPS, "The steps appear with the first epoch.");
    this.watermarkChart = new WatermarkChart();
    this.watermarks = new DataTable("Watermarks and what they wait for", WATERMARKS, "Only a checkpoint tells what each waits for: run the pipeline with --checkpoint=PLACE.");
    this.lost = new DataTable("Late, dropped, duplicate and dead-lettered records", LOST, "No record was late, dropped, duplicate or dead-lettered.");
    this.epochChart = new EpochChart();
    this.epochs = new DataTable("Durations of epochs", EPOCHS, "Bars appear with the second epoch that is seen.");
    this.epochNote = element("p", { class: "dim" });
    this.levels = element("div", { class: "levels" });
    this.strips = new Map();
    this.levelNote = element("p", { class: "dim" }, "Across the key space; darker means more bytes.");
    this.sources = new DataTable("Sources", SOURCES, "The program has no source.");
    this.pending = new DataTable("Records on their way to the next epoch", PENDING, "No record waits for the next epoch.");
    this.keys = new KeyExplorer(this);
    this.panes = new PanePlayer(this);
    this.stored = [
      panel("Key intervals", true, this.levels, this.levelNote),
      panel("Input", true, this.sources.element, this.pending.element),
      panel("Stored state by key", true, this.keys.element),
      panel("Panes", true, this.panes.element),
    ];
    this.unstored = panel("Key intervals, positions of the input, state, panes", true, element("p", { class: "empty" }, ONLY_STORED));
    this.element = element("section", { class: "pipeline", id: this.id, "aria-labelledby": `${this.id}title` },
      element("div", { class: "heading" }, this.title, this.chip, this.ago), this.where, this.sentence, this.problem, this.stuck, this.tiles,
      element("div", { class: "panels" },
        panel("Graph", true, this.graph.element),
        panel("Watermarks", true, this.watermarkChart.whole, this.watermarks.element),
        panel("Steps", true, this.steps.element),
        panel("Late and lost", false, this.lost.element),
        panel("Epochs", false, this.epochChart.whole, this.epochNote, details("Epochs as a table", this.epochs.element)),
        this.unstored, ...this.stored));
  }

  update(snapshot) {
    this.snapshot = snapshot;
    const { status, totals, stored } = snapshot;
    say(this.title, snapshot.title);
    say(this.where, [snapshot.place || "without a checkpoint", stored?.driver].filter(Boolean).join(" · "));
    this.chip.className = `chip ${status.phase}`;
    say(this.chip, `${SIGNS[status.phase]} ${WORDS[status.phase]}`);
    say(this.sentence, status.sentence);
    this.problem.hidden = !snapshot.problem || status.phase === "unreadable";
    say(this.problem, snapshot.problem ? `⚠ The checkpoint could not be read: ${snapshot.problem}` : "");
    this.element.classList.toggle("begun", Boolean(totals));
    if (totals) this.figures(snapshot);
  }

  figures(snapshot) {
    const { totals, history, steps, stored } = snapshot;
    this.drawGraph(stored?.topology ?? "of the program");
    this.graph.update(steps);
    const inOrder = this.sorted(steps);
    this.steps.update(inOrder);
    this.lost.update(inOrder.filter((step) => step.late || step.dropped || step.duplicates || step.dead_letters));
    this.watermarkChart.update(history);
    const still = new Map(steps.map(({ step, still, still_at_first }) => [step, { still, still_at_first }]));
    const waits = (stored?.watermarks ?? []).map((row) => ({ ...row, ...still.get(row.step) }));
    this.watermarks.update(waits);
    this.notice(snapshot, waits);
    this.epochChart.update(snapshot.epochs);
    this.epochs.update([...snapshot.epochs].reverse());
    say(this.epochNote, snapshot.live ? "At most one epoch a second is shown."
      : "A checkpoint tells when epochs were committed, not how long their parts took: the page of the run itself (headrace run --ui) has these.");
    for (const each of this.stored) each.hidden = !stored;
    this.unstored.hidden = Boolean(stored);
    if (stored) this.facts(stored);
    this.figureTiles(totals, history, snapshot);
  }

  /** What only a checkpoint tells. */
  facts(stored) {
    this.intervals(stored.levels);
    this.sources.update(stored.sources);
    this.pending.update(stored.pending);
    this.keys.update(stored);
    this.panes.update();
  }

  /** The steps along the stream; one inside of a chain has no box, and stands behind the one before it. */
  sorted(steps) {
    const order = this.graph.order(), places = new Map();
    let before = -1;
    for (const step of steps) {
      before = order.get(step.step) ?? before + 1e-3;
      places.set(step, before);
    }
    return [...steps].sort((a, b) => places.get(a) - places.get(b));
  }

  /** The watermarks that stand still, in words, above everything else: sources first, then what waits for the same. */
  notice({ status, steps, stored, notices }, waits) {
    const sources = new Set((stored?.sources ?? []).map((row) => row.source));
    const reasons = new Map(waits.map((row) => [row.step, row.waits_for]));
    const still = status.phase === "finished" ? [] : steps.filter((step) => step.still);
    const lines = still.filter((step) => sources.has(step.step)).map((step) =>
      `⚠ Source ${step.step} has stood at ${step.watermark.text} for ${stoodFor(step)} while others went on. If it may be silent, give it an idle timeout or an end.`);
    const alike = grouped(still.filter((step) => !sources.has(step.step)), (step) => `${reasons.get(step.step) ?? ""}\n${step.watermark.text}`);
    for (const group of alike.values()) {
      const reason = reasons.get(group[0].step), names = group.map((step) => step.step).join(", ");
      lines.push(`⚠ The watermark of ${names} has stood at ${group[0].watermark.text} for ${stoodFor(group[0])} while records came.` + (reason ? ` It waits for ${reason}.` : ""));
    }
    lines.push(...notices.map((notice) => `⚠ ${notice[0].toUpperCase()}${notice.slice(1)}.`));
    this.stuck.hidden = !lines.length;
    if (lines.join() === this.stuck.dataset.told) return;
    this.stuck.dataset.told = lines.join();
    this.stuck.replaceChildren(...lines.slice(0, 5).map((line) => element("p", {}, line)));
  }

  figureTiles(totals, history, snapshot) {
    const speed = (perSecond) => perSecond === null ? "" : rate(perSecond);
    const tiles = [
      ["records in", count(totals.records_in), speed(totals.in_rate)],
      ["lag", totals.lag, ""],
      ["records out", count(totals.records_out), speed(totals.out_rate)],
      ["watermark", totals.watermark.text, ""],
      [snapshot.live ? "state" : "state in files", totals.state, ""],
      ["epoch", count(snapshot.epoch), ""],
      ["late", count(totals.late), "", false],
      ["dropped", count(totals.dropped), "", totals.dropped > 0],
      ["duplicates", count(totals.duplicates), "", totals.duplicates > 0],
      ["dead-lettered", count(totals.dead_letters), "", totals.dead_letters > 0],
    ];
    if (!this.tiles.children.length) {
      this.tiles.append(...tiles.map(([name]) => element("div", { class: name === "watermark" || name === "records in" ? "tile broad" : "tile", "data-name": name },
        element("dt", {}, name), element("dd", {}, element("span", { class: "value" }), element("span", { class: "beside" })))));
      this.spark = element("span", { class: "spark-frame" });
      this.tiles.querySelector("dd").append(this.spark);
    }
    tiles.forEach(([name, value, beside, alarm], place) => {
      const tile = this.tiles.children[place];
      say(tile.querySelector("dt"), name);
      say(tile.querySelector(".value"), (alarm ? "⚠ " : "") + value);
      say(tile.querySelector(".beside"), beside);
      tile.classList.toggle("alarm", Boolean(alarm));
    });
    this.spark.replaceChildren(...(totals.in_rate !== null && history.in_rates.length > 3 ? [sparkline(history.in_rates)] : []));
  }

  async drawGraph(topology) {
    if (this.topology === topology || Date.now() < this.graphDue) return;
    this.topology = topology;
    try {
      const graph = await this.ask(`pipelines/${this.place}/graph.json`);
      if (this.topology === topology) this.graph.set(graph);
    } catch (error) {
      this.graph.fail(error.message);
      this.topology = null;
      this.graphDue = Date.now() + GRAPH_AGAIN;
    }
    this.figures(this.snapshot);
  }

  intervals(levels) {
    this.levelNote.hidden = levels.every((level) => level.intervals.length < 2);
    const shape = levels.map((level) => level.steps.join("\n")).join("\n\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.strips = levels.map((level) => {
        const strip = new IntervalStrip(), table = new DataTable(`Key intervals of level ${level.level}`, INTERVALS, "");
        const heading = element("p", { class: "level" });
        return { strip, table, heading, element: element("div", {}, heading, strip.element, details("Intervals as a table", table.element)) };
      });
      this.levels.replaceChildren(...this.strips.map((each) => each.element));
    }
    levels.forEach((level, place) => {
      const { strip, table, heading } = this.strips[place], hot = level.intervals.filter((its) => its.hot).length;
      const size = level.intervals.reduce((sum, its) => sum + its.size, 0), many = level.intervals.length;
      say(heading, `Level ${level.level}: ${level.steps.join(", ")}. ${many} interval${many === 1 ? "" : "s"}, ${bytes(size)} in files` +
        (hot ? `; ⚠ ${hot} with more than three times the average` : ""));
      // One interval is all keys.
      strip.element.hidden = many < 2;
      strip.update(level.intervals);
      table.update(level.intervals);
    });
  }

  /** What changes with the clock alone. */
  tick(clock) {
    const committed = this.snapshot?.status.committed, age = Math.max(0, Math.round(clock - committed));
    say(this.ago, committed ? `last commit ${age ? duration(age) : "0 s"} ago` : "");
  }

  /** A sentence for screen readers. */
  summary() {
    const { title, status, steps } = this.snapshot, still = steps.filter((step) => step.still).map((step) => step.step);
    return `${title}: ${WORDS[status.phase]}.` + (still.length ? ` The watermark of ${still.join(", ")} stands still.` : "");
  }
}
