// What a reader asks for: the state of a step by key, and the panes of a recorded step.
import { bytes, count, element, say } from "./elements.js";
import { DataTable } from "./tables.js";

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
    this.step = element("select", { onchange: () => this.clear() });
    this.key = element("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "all keys" });
    this.said = element("p", { class: "dim", role: "status", tabindex: "-1" });
    this.list = new DataTable("Keys with the most state", [
      { name: "key", value: (row) => row.key },
      { name: "entries", value: (row) => count(row.entries), number: true },
      { name: "size", value: (row) => bytes(row.bytes), number: true },
      { name: "contents", value: () => "show", make: (row) => this.button(row) },
    ], "Nothing is stored of this step.");
    this.timers = new DataTable("Next timers of the step", [
      { name: "timer of key", value: (row) => row.key },
      { name: "for", value: (row) => row.for },
      { name: "clock", value: (row) => row.clock },
      { name: "due (UTC)", value: (row) => row.due.date.replace("T", " ").replace("Z", "") },
    ], "No timer waits.");
    this.entries = element("div", { class: "entries" });
    this.all = element("button", { type: "button", hidden: true, onclick: () => { this.key.value = ""; this.look({}); } }, "Back to all keys");
    this.form = element("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); this.look(this.asked()); } },
      labelled("Step", this.step), labelled("Key", this.key), element("button", {}, "Show state"), this.all);
    this.results = element("div", { class: "results", hidden: true }, this.list.element, this.entries, this.timers.element);
    this.element = element("div", {}, this.form, this.said, this.results);
  }

  /** A key of the list is asked for by its id, as its text may be cut short. */
  button(row) {
    const made = element("button", { type: "button", class: "plain", "aria-label": `show state of key ${row.key}`, onclick: () => {
      this.key.value = row.key;
      this.chosen = row;
      this.look(this.asked());
    } }, "show");
    made.dataset.made = row.id;
    return made;
  }

  asked() {
    const key = this.key.value;
    if (!key) return {};
    return this.chosen?.key === key ? { id: this.chosen.id } : { key };
  }

  clear() {
    this.chosen = null;
    this.key.value = "";
    this.results.hidden = this.all.hidden = true;
    say(this.said, "");
  }

  update(stored) {
    choose(this.step, stored.watermarks.map((row) => row.step));
  }

  async look(asked) {
    const step = this.step.value, query = new URLSearchParams({ step, ...asked }), isList = !Object.keys(asked).length;
    say(this.said, "reading the checkpoint");
    try {
      const found = await this.pipeline.ask(`pipelines/${this.pipeline.place}/keys.json?${query}`);
      this.results.hidden = false;
      this.all.hidden = isList;
      if (isList) this.showKeys(step, found);
      else this.showKey(step, found);
    } catch (error) {
      this.results.hidden = true;
      say(this.said, `⚠ ${error.message}`);
    }
    // The button that was pressed may be gone.
    if (document.activeElement === document.body || !document.activeElement.checkVisibility()) this.said.focus();
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
    const many = found.entries.length, key = this.key.value;
    say(this.said, many ? `key ${key} of ${step} after epoch ${count(found.epoch)}: ${count(many)} ${many === 1 ? "entry" : "entries"}`
      : `nothing is stored of key ${key} of ${step} after epoch ${count(found.epoch)}; write the key as a program would, such as 7 or ('red', 1)`);
    this.list.element.hidden = this.timers.element.hidden = true;
    const names = [...new Set(found.entries.flatMap((entry) => Object.keys(entry)))];
    const table = new DataTable(`What is stored of key ${key}`, names.map((name) => ({ name, value: (row) => row[name] ?? "", number: name === "bytes" })), "");
    this.entries.replaceChildren(...(many ? [table.element] : []));
    table.update(found.entries);
  }
}

export class PanePlayer {
  constructor(pipeline) {
    this.pipeline = pipeline;
    this.steps = [];
    this.step = element("select", { onchange: () => this.offerKeys() });
    this.keys = element("datalist", { id: `keys${++labels}` });
    this.key = element("input", { type: "text", list: this.keys.id, autocomplete: "off", spellcheck: "false", placeholder: "the one with the most" });
    this.said = element("p", { class: "dim", role: "status" });
    this.find = element("button", { type: "button", onclick: () => this.list() }, "List steps and keys");
    this.form = element("form", { class: "fields", hidden: true, onsubmit: (event) => { event.preventDefault(); this.draw(); } },
      labelled("Step", this.step), labelled("Key", this.key), this.keys, element("button", {}, "Draw"));
    this.frame = element("iframe", { class: "picture", hidden: true, title: "The run, playing" });
    this.frame.addEventListener("load", () => this.fit());
    this.element = element("div", {}, this.find, this.form, this.said, this.frame);
  }

  update() {
    this.find.hidden = this.steps.length > 0;
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
    this.offerKeys();
    this.find.hidden = true;
    this.form.hidden = false;
    say(this.said, this.steps.some((step) => step.recorded) ? ""
      : "The run is not recorded: a picture shows its watermarks, open windows and timers. Run it with --record for inputs and panes.");
    this.step.focus();
  }

  offerKeys() {
    const step = this.steps.find((each) => each.step === this.step.value);
    this.key.value = "";
    this.keys.replaceChildren(...(step?.keys ?? []).map((key) => element("option", { value: key })));
  }

  draw() {
    const query = new URLSearchParams({ step: this.step.value, key: this.key.value });
    this.frame.src = `pipelines/${this.pipeline.place}/panes.html?${query}`;
    this.frame.hidden = false;
    say(this.said, "drawing");
  }

  /** A picture is as high as it is; of an answer that is an error, the message is shown. */
  fit() {
    const inside = this.frame.contentDocument;
    if (this.frame.hidden || !inside?.body) return;
    if (inside.contentType === "application/json") {
      this.frame.hidden = true;
      say(this.said, `⚠ ${JSON.parse(inside.querySelector("pre").textContent).error}`);
      return;
    }
    say(this.said, "");
    this.frame.height = inside.documentElement.scrollHeight + 8;
  }
}
