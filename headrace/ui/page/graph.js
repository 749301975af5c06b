// The graph of a pipeline: a box for each step with its figures, arranged by the server from left to right or downwards.
import { count, drawn, element, rate } from "./elements.js";
import { scrollable } from "./tables.js";

const LEAST_SCALE = 0.82, MOST_SCALE = 1.2;
let numbers = 0;

export class Graph {
  constructor() {
    this.scroller = element("div", { class: "scroller graph" });
    this.note = element("p", { class: "empty" }, "The graph is being drawn.");
    this.legend = element("p", { class: "dim", hidden: true }, "A thick arrow is a shuffle by key.");
    this.element = element("div", {}, this.scroller, this.legend, this.note);
    this.places = null;
    this.drawing = null;
    this.end = `end${++numbers}`;
    new ResizeObserver(() => this.arrange()).observe(this.scroller);
  }

  fail(message) {
    this.note.textContent = message;
    this.note.hidden = false;
  }

  set(places) {
    this.places = places;
    this.drawing = null;
    this.note.hidden = true;
    this.legend.hidden = !places.across.arrows.some((arrow) => arrow.shuffled);
    this.arrange();
  }

  /** Choose the arrangement that fits; draw it if it is another one than before. */
  arrange() {
    if (!this.places) return;
    const { across, down } = this.places, width = this.scroller.clientWidth;
    const chosen = width >= across.width * LEAST_SCALE || across.width <= down.width ? across : down;
    if (this.drawing?.place !== chosen) this.draw(chosen);
    const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, width / chosen.width));
    this.drawing.svg.setAttribute("width", Math.floor(chosen.width * scale));
    this.drawing.svg.setAttribute("height", Math.floor(chosen.height * scale));
    scrollable(this.scroller, "Graph of the pipeline");
    this.figures();
  }

  draw(place) {
    const { line, padding } = this.places, boxes = new Map();
    const head = drawn("marker", { id: this.end, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9,
      markerUnits: "userSpaceOnUse", orient: "auto" }, drawn("path", { d: "M0 0L8 4L0 8z", class: "tip" }));
    const svg = drawn("svg", { viewBox: `0 0 ${place.width} ${place.height}`, role: "img",
      "aria-label": "The steps and the streams between them; the table of steps has the same figures." }, drawn("defs", {}, head));
    for (const arrow of place.arrows) {
      svg.append(drawn("path", { d: arrow.path, class: arrow.shuffled ? "arrow shuffled" : "arrow", "marker-end": `url(#${this.end})` }));
    }
    for (const box of place.boxes) {
      const middle = box.x + box.width / 2;
      const lines = [0, 1, 2, 3].map((number) => drawn("text", { x: middle, y: box.y + padding + line * (number + 0.75),
        class: ["title", "about", "figures", "figures"][number] }));
      lines[0].textContent = box.title;
      lines[1].textContent = box.about;
      const round = box.kind === "source" || box.kind === "sink" ? 16 : 4;
      const frame = drawn("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: round });
      svg.append(drawn("g", { class: `box ${box.kind}` }, frame, drawn("title", {}, box.step), ...lines));
      boxes.set(box, lines);
    }
    this.drawing = { place, svg, boxes };
    this.scroller.replaceChildren(svg);
  }

  update(steps) {
    this.steps = new Map(steps.map((step) => [step.step, step]));
    this.figures();
  }

  figures() {
    if (!this.drawing || !this.steps) return;
    for (const [box, lines] of this.drawing.boxes) {
      const own = this.steps.get(box.step), first = own ?? this.steps.get(box.first), last = own ?? this.steps.get(box.last);
      const flow = box.kind === "source" ? [last?.out_rate, last?.records_out] : [first?.in_rate, first?.records_in];
      const [speed, total] = flow;
      lines[2].textContent = rate(speed) || (total === null || total === undefined ? "" : count(total) + (total === 1 ? " record" : " records"));
      const still = Boolean(own?.still);
      const behind = own?.lag && own.lag !== "-" ? `lag ${own.lag}` : "";
      lines[3].textContent = still ? "⚠ watermark stands still" : [behind, own?.state].filter(Boolean).join(" · ");
      lines[3].parentNode.classList.toggle("alarm", still);
    }
  }

  /** The order of the steps along the stream, for tables. */
  order() {
    if (!this.places) return new Map();
    const boxes = [...this.places.across.boxes].sort((a, b) => a.x - b.x || a.y - b.y);
    return new Map(boxes.flatMap((box, place) => [[box.first, place], [box.last, place + 0.5], [box.step, place]]));
  }
}
