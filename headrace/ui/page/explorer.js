// What a reader asks for: the state of a step by key, and the panes of a recorded step.
import { bytes, count, element, say } from "./elements.js";
import { DataTable } from "./tables.js";

const NO_CHECKPOINT = "Only a checkpoint tells this. Run the pipeline with --checkpoint=PLACE.";
let labels = 0;

function labelled(text, field) {
  field.id = `field${++labels}`;
  return element("div", { class: "field" }, element("label", { for: field.id }, text), field);
}

/** Fill a choice, and keep what is chosen. */
function choose(select, names, texts = names) {
  const told = names.join("\n") + texts.join("\n");
  if (select.dataset.told === told) return;
  const before = select.value;
  select.dataset.told = told;
  select.replaceChildren(...names.map((name, place) => element("option", { value: name }, texts[place])));
  if (names.includes(before)) select.value = before;
}

export class KeyExplorer {
  constructor(pipeline) {
    this.pipeline = pipeline;
    this.step = element("select");
    this.key = element("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "all keys" });
    this.said = element("p", { class: "dim", role: "status" });
    this.list = new DataTable("Keys with the most state", [
      { name: "key", value: (row) => row.key },
      { name: "entries", value: (row) => count(row.entries), number: true },
      { name: "bytes", value: (row) => bytes(row.bytes), number: true },
      { name: "contents", value: () => "look", make: (row) => this.button(row.key) },
    ], "Nothing is stored of this step.");
    this.timers = new DataTable("Next timers of the step", [
      { name: "timer of key", value: (row) => row.key },
      { name: "for", value: (row) => row.for },
      { name: "clock", value: (row) => row.clock },
      { name: "due", value: (row) => row.due.date },
    ], "No timer waits.");
    this.entries = element("div", { class: "entries" });
    this.form = element("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); this.look(this.key.value); } },
      labelled("Step", this.step), labelled("Key", this.key), element("button", {}, "Look"));
    this.none = element("p", { class: "empty" }, NO_CHECKPOINT);
    this.results = element("div", { class: "results", hidden: true }, this.list.element, this.entries, this.timers.element);
    this.element = element("div", {}, this.form, this.none, this.said, this.results);
  }

  button(key) {
    const made = element("button", { type: "button", class: "plain", "aria-label": `contents of key ${key}`, onclick: () => { this.key.value = key; this.look(key); } }, "look");
    made.dataset.made = key;
    return made;
  }

  update(stored) {
    this.none.hidden = Boolean(stored);
    this.form.hidden = !stored;
    if (stored) choose(this.step, stored.watermarks.map((row) => row.step));
  }

  async look(key) {
    const step = this.step.value, query = new URLSearchParams({ step });
    if (key) query.set("key", key);
    say(this.said, "reading the checkpoint");
    try {
      const found = await this.pipeline.ask(`pipelines/${this.pipeline.place}/keys.json?${query}`);
      this.results.hidden = false;
      if (key) this.showKey(step, found);
      else this.showKeys(step, found);
    } catch (error) {
      this.results.hidden = true;
      say(this.said, `⚠ ${error.message}`);
    }
  }

  showKeys(step, found) {
    const all = found.complete ? `all ${count(found.scanned)} entries` : `the first ${count(found.scanned)} entries`;
    say(this.said, `${step} after epoch ${count(found.epoch)}: the keys with the most state, of ${all}`);
    this.list.element.hidden = this.timers.element.hidden = false;
    this.entries.replaceChildren();
    this.list.update(found.keys);
    this.timers.update(found.timers);
  }

  showKey(step, found) {
    const many = found.entries.length;
    say(this.said, many ? `key ${found.key} of ${step}: ${count(many)} ${many === 1 ? "entry" : "entries"}`
      : `nothing is stored of key ${found.key} of ${step}; write the key as a program would, such as 7 or ('red', 1)`);
    this.list.element.hidden = this.timers.element.hidden = true;
    const names = [...new Set(found.entries.flatMap((entry) => Object.keys(entry)))];
    const table = new DataTable(`What is stored of key ${found.key}`, names.map((name) => ({ name, value: (row) => row[name] ?? "" })), "");
    this.entries.replaceChildren(...(many ? [table.element] : []));
    table.update(found.entries);
  }
}

export class PanePlayer {
  constructor(pipeline) {
    this.pipeline = pipeline;
    this.steps = [];
    this.step = element("select", { onchange: () => this.chooseKeys() });
    this.key = element("select");
    this.said = element("p", { class: "dim", role: "status" });
    this.find = element("button", { type: "button", onclick: () => this.list() }, "Find what can be drawn");
    this.form = element("form", { class: "fields", hidden: true, onsubmit: (event) => { event.preventDefault(); this.draw(); } },
      labelled("Step", this.step), labelled("Key", this.key), element("button", {}, "Draw"));
    this.frame = element("iframe", { class: "picture", hidden: true, title: "The run, playing" });
    this.frame.addEventListener("load", () => this.fit());
    this.none = element("p", { class: "empty" }, `${NO_CHECKPOINT} With --record it has the inputs and panes of each key, too.`);
    this.element = element("div", {}, this.none, this.find, this.form, this.said, this.frame);
  }

  update(stored) {
    this.none.hidden = Boolean(stored);
    this.find.hidden = !stored || this.steps.length > 0;
  }

  async list() {
    say(this.said, "reading the recording");
    try {
      this.steps = await this.pipeline.ask(`pipelines/${this.pipeline.place}/recorded.json`);
    } catch (error) {
      say(this.said, `⚠ ${error.message}`);
      return;
    }
    const texts = this.steps.map((step) => `${step.step}: ${step.summary}`);
    choose(this.step, this.steps.map((step) => step.step), texts);
    this.chooseKeys();
    this.find.hidden = true;
    this.form.hidden = false;
    say(this.said, this.steps.some((step) => step.recorded) ? ""
      : "The run is not recorded: a picture shows its watermarks, open windows and timers. Run it with --record for inputs and panes.");
    this.step.focus();
  }

  chooseKeys() {
    const step = this.steps.find((each) => each.step === this.step.value);
    choose(this.key, step?.keys ?? []);
  }

  draw() {
    const query = new URLSearchParams({ step: this.step.value, key: this.key.value });
    this.frame.src = `pipelines/${this.pipeline.place}/panes.html?${query}`;
    this.frame.hidden = false;
  }

  /** A picture is as high as it is; of an answer that is an error, the message is shown. */
  fit() {
    const inside = this.frame.contentDocument;
    if (this.frame.hidden || !inside?.body) return;
    if (inside.contentType === "application/json") {
      this.frame.hidden = true;
      say(this.said, `⚠ ${JSON.parse(inside.body.textContent).error}`);
      return;
    }
    say(this.said, "");
    this.frame.height = inside.documentElement.scrollHeight + 8;
  }
}
