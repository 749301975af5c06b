// Charts: watermarks over time, durations of epochs, key intervals, and a small line of rates. Each has a table beside it.
import { bytes, clockText, count, dayText, drawn, duration, element } from "./elements.js";

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 2592000, 7776000, 31536000, 157680000, 1576800000, 31536000000];
export const LINES = 6;
const PATTERNS = ["", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"];

/** Round values between two numbers, and the distance between them. */
function ticks(low, high, most) {
  const fineness = STEPS.find((step) => (high - low) / step <= most) ?? STEPS.at(-1);
  const found = [];
  for (let value = Math.ceil(low / fineness) * fineness; value <= high + 1e-9; value += fineness) found.push(value);
  return { found, fineness };
}

/** A chart that is drawn anew when its width or its values change. */
class Chart {
  constructor(height, label) {
    this.height = height;
    this.svg = drawn("svg", { class: "chart", role: "img", "aria-label": label, height });
    this.element = element("div", { class: "chart-frame" }, this.svg);
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  redraw() {
    const width = Math.floor(this.element.clientWidth);
    if (!this.values || !width) return;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.replaceChildren(...this.parts(width));
  }

  update(values) {
    this.values = values;
    this.redraw();
  }
}

export class WatermarkChart extends Chart {
  constructor() {
    super(230, "Watermarks over time: the wall clock goes across, event time goes up. The table below has the same watermarks.");
    this.legend = element("ul", { class: "legend" });
    this.none = element("p", { class: "empty" });
    this.whole = element("div", {}, this.element, this.legend, this.none);
  }

  /** Steps whose watermark is inside of time, the furthest back first. */
  update(history) {
    const last = (line) => line.findLast((value) => value !== null) ?? null;
    const lines = Object.entries(history.watermarks).filter(([, line]) => last(line) !== null)
      .sort(([, a], [, b]) => last(a) - last(b));
    this.element.hidden = this.legend.hidden = !lines.length || history.clocks.length < 2;
    this.none.hidden = !this.element.hidden;
    if (this.element.hidden) {
      this.none.textContent = history.clocks.length < 2 ? "Lines appear with the second epoch that is seen."
        : "No watermark is between the beginning and the end of time: before the first timestamp and after the last there is nothing to draw.";
      return;
    }
    const shown = this.inPlaces(lines.slice(0, LINES));
    const names = shown.map(([name]) => name).join("\n") + lines.length;
    if (names !== this.names) {
      this.names = names;
      this.legend.replaceChildren(...shown.map(([name], place) => element("li", {},
        drawn("svg", { width: 28, height: 10, "aria-hidden": "true" }, line([[0, 5], [28, 5]], place)), name)),
      ...(lines.length > LINES ? [element("li", { class: "dim" }, `and ${lines.length - LINES} further ahead`)] : []));
    }
    super.update({ ...history, shown });
  }

  /** A line keeps its colour though another one falls behind it. */
  inPlaces(lines) {
    const found = new Map(lines);
    this.places = (this.places ?? []).map((name) => found.has(name) ? name : null);
    for (const [name] of lines) {
      if (this.places.includes(name)) continue;
      const free = this.places.indexOf(null);
      if (free < 0) this.places.push(name);
      else this.places[free] = name;
    }
    this.places = this.places.filter((name) => name !== null);
    return this.places.map((name) => [name, found.get(name)]);
  }

  parts(width) {
    const { clocks, epochs, shown } = this.values;
    const values = shown.flatMap(([, line]) => line).filter((value) => value !== null);
    let low = Math.min(...values), high = Math.max(...values);
    if (high - low < 1) [low, high] = [low - 30, high + 30];
    const up = ticks(low, high, 5), left = up.fineness >= 86400 ? 78 : 64, right = 12, top = 22, bottom = this.height - 24;
    const from = clocks[0], to = Math.max(clocks.at(-1), from + 1);
    const across = ticks(from, to, Math.max(2, Math.floor((width - left) / 95)));
    const x = (clock) => left + (clock - from) / (to - from) * (width - left - right);
    const y = (value) => bottom - (value - low) / (high - low) * (bottom - top - 8);
    const day = up.fineness < 86400 ? `, ${dayText(low)}` : "";
    return [
      drawn("text", { x: 0, y: 12, class: "axis" }, `event time${day} (UTC)`),
      ...up.found.map((value) => drawn("g", {}, drawn("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        drawn("text", { class: "axis", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, clockText(value, up.fineness)))),
      drawn("line", { class: "base", x1: left, x2: width - right, y1: bottom, y2: bottom }),
      ...across.found.filter((clock) => x(clock) < width - 40).map((clock) => drawn("text", { class: "axis", x: x(clock), y: this.height - 6,
        "text-anchor": "middle" }, clockText(clock, across.fineness))),
      // Lines that lie upon each other show the wide one below.
      ...shown.map(([, its], place) => line(stepped(clocks, epochs, its, x, y), place)),
    ];
  }
}

/** A watermark stands from one epoch to the next, so a line has corners; it is straight past epochs that were not seen. */
function stepped(clocks, epochs, values, x, y) {
  const points = [];
  clocks.forEach((clock, place) => {
    if (values[place] === null) return;
    if (points.length && epochs[place] === epochs[place - 1] + 1) points.push([x(clock), points.at(-1)[1]]);
    points.push([x(clock), y(values[place])]);
  });
  return points;
}

function line(points, place) {
  const path = points.map(([x, y], number) => `${number ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return drawn("path", { d: path, class: `line series${place}`, "stroke-dasharray": PATTERNS[place] });
}

const CUT_WIDTH = 70;
const PARTS = { tasks: "tasks (user code)", commit: "commit", deliver: "deliver to sinks" };

/** The height of the scale: of a few bars that are far higher than all others only the number is shown. */
function scaled(seconds) {
  const sorted = [...seconds].sort((a, b) => a - b), most = sorted.at(-1) ?? 1;
  const usual = sorted[Math.floor(0.9 * (sorted.length - 1))] ?? most;
  return Math.max(most > 4 * usual ? 1.5 * usual : most, 1e-6);
}

export class EpochChart extends Chart {
  constructor(number) {
    super(170, "Durations of the latest epochs by part. The table below has the same numbers.");
    this.number = number;
    this.legend = element("ul", { class: "legend" });
    this.whole = element("div", {}, this.element, this.legend);
  }

  update(epochs) {
    const names = [...new Set(epochs.flatMap((epoch) => Object.keys(epoch.phases)))];
    if (names.join() !== this.names) {
      this.names = names.join();
      this.legend.replaceChildren(...names.map((name, place) => element("li", {},
        drawn("svg", { width: 16, height: 12, "aria-hidden": "true" }, ...this.bar(place, 0, 0, 16, 12)), PARTS[name] ?? name)));
    }
    this.element.hidden = this.legend.hidden = !epochs.length;
    super.update({ epochs, names });
  }

  bar(place, x, y, width, height) {
    const area = { x: x.toFixed(1), y: y.toFixed(1), width: Math.max(1, width).toFixed(1), height: Math.max(0, height).toFixed(1) };
    return [drawn("rect", { ...area, class: `part${place}` }), ...(place ? [drawn("rect", { ...area, class: "hatch", fill: `url(#hatch${place})` })] : [])];
  }

  parts(width) {
    const { epochs, names } = this.values, left = 64, top = 16, bottom = this.height - 22;
    const most = scaled(epochs.map((epoch) => epoch.seconds));
    const up = ticks(0, most, 4), y = (seconds) => bottom - Math.min(seconds / most, 1) * (bottom - top);
    // Few epochs have slim bars, too.
    const wide = Math.min(26, (width - left) / epochs.length);
    let free = 0;
    const bars = epochs.flatMap((epoch, place) => {
      let above = 0;
      const x = left + place * wide;
      const parts = names.flatMap((name, part) => {
        const seconds = epoch.phases[name] ?? 0;
        above += seconds;
        return this.bar(part, x, y(above), wide - 2, y(above - seconds) - y(above));
      });
      if (epoch.seconds <= most || x < free) return parts;
      free = x + CUT_WIDTH;
      return [...parts, drawn("text", { class: "axis", x, y: 11 }, `↑ ${duration(epoch.seconds)}`)];
    });
    const said = [0, epochs.length - 1].filter((place, at) => !at || place * wide > 90);
    return [
      ...up.found.map((seconds) => drawn("g", {}, drawn("line", { class: "grid", x1: left, x2: width, y1: y(seconds), y2: y(seconds) }),
        drawn("text", { class: "axis", x: left - 8, y: y(seconds) + 4, "text-anchor": "end" }, seconds ? duration(seconds) : "0"))),
      ...bars,
      ...said.map((place) => drawn("text", { class: "axis", x: left + place * wide + (place ? wide - 2 : 0), y: this.height - 5, "text-anchor": place ? "end" : "start" },
        `epoch ${count(epochs[place].epoch)}`)),
    ];
  }
}

/** The key intervals of one level: a strip of the key space, in which darker means more bytes. */
export class IntervalStrip extends Chart {
  constructor() {
    super(34, "Key intervals of the level across the key space; the table below has their sizes.");
  }

  parts(width) {
    const most = Math.max(...this.values.map((its) => its.size), 1);
    return this.values.flatMap((its) => {
      const x = its.start * width, wide = (its.stop - its.start) * width, share = its.size / most;
      const text = its.hot ? "⚠ hot" : wide > 60 && this.values.length > 1 ? bytes(its.size) : "";
      return [
        drawn("rect", { x: (x + 0.5).toFixed(1), y: 4, width: Math.max(1, wide - 1.5).toFixed(1), height: 26, rx: 2, class: "interval",
          "fill-opacity": (0.08 + 0.32 * share).toFixed(2) }),
        ...(text && wide > 44 ? [drawn("text", { class: "axis strong", x: x + wide / 2, y: 21, "text-anchor": "middle" }, text)] : []),
      ];
    });
  }
}

export function sparkline(rates) {
  const known = rates.filter((rate) => rate !== null).slice(-60), most = Math.max(...known, 1e-9), width = 88, height = 26;
  const path = known.map((rate, place) => `${place ? "L" : "M"}${(place / Math.max(1, known.length - 1) * width).toFixed(1)} ${(height - 2 - rate / most * (height - 4)).toFixed(1)}`);
  return drawn("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    drawn("path", { class: "under", d: `${path.join("")}L${width} ${height}L0 ${height}z` }), drawn("path", { d: path.join("") }));
}
