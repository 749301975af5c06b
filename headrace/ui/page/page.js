// Asks for news once a second while the page is seen, and gives each pipeline its own.
import { element, say } from "./elements.js";
import { PipelineView } from "./pipeline.js";

const EVERY = 1000, PATIENCE = 20000, ENDS = ["finished", "failed", "dead"];
const where = document.getElementById("pipelines"), link = document.getElementById("link");
const pause = document.getElementById("pause"), summary = document.getElementById("summary"), contents = document.getElementById("contents");
let views = [], versions = [], server = null, paused = false, lost = null, ahead = 0, ended = false;

async function ask(address) {
  const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE) }).catch((error) => {
    throw new Error(error.name === "TimeoutError" ? "it is busy, or out of reach" : "what served the page has ended");
  });
  const document = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(document?.error ?? (answer.status === 401 ? "The page's token is not known any more: open the address that was printed." : `answer ${answer.status}`));
  return document;
}

function begin(number) {
  versions = [];
  views = Array.from({ length: number }, (_, place) => new PipelineView(place, ask));
  where.replaceChildren(...views.map((view) => view.element));
  document.body.classList.toggle("several", number > 1);
}

/** Links to the pipelines, where there are several. */
function list() {
  contents.hidden = views.length < 2;
  const titles = views.map((view) => `${view.snapshot.title}: ${view.chip.textContent}`);
  if (contents.dataset.told === titles.join("\n")) return;
  contents.dataset.told = titles.join("\n");
  contents.replaceChildren(...views.map((view) => element("a", { href: `#${view.id}` }, view.snapshot.title, " ", element("span", { class: view.chip.className }, view.chip.textContent))));
  const words = views.map((view) => view.chip.textContent);
  const stand = [...new Set(words)].map((word) => `${words.filter((its) => its === word).length} ${word}`).join(", ");
  document.title = `${views.length === 1 ? titles[0] : stand} - Headrace`;
}

function show(news) {
  if (server !== news.server) {
    // Another run, or another command: nothing of the one before is left.
    server = news.server;
    begin(news.pipelines.length);
  }
  news.pipelines.forEach(({ version, snapshot }, place) => {
    if (snapshot === null) return;
    versions[place] = version;
    views[place].update(snapshot);
  });
  if (views.some((view) => !view.snapshot)) return;
  ahead = news.clock - Date.now() / 1000;
  tick();
  list();
  // Screen readers are told when something stands otherwise than before; figures are in the lists and tables.
  connect("live", "link live", stand());
  lost = null;
  ended = views.length === 1 && views[0].snapshot.live && ENDS.includes(views[0].snapshot.status.phase);
}

/** Ages grow though nothing is answered; they are told by the clock of the machine that serves the page. */
function tick() {
  views.forEach((view) => view.tick(Date.now() / 1000 + ahead));
}

function stand() {
  return views.map((view) => view.summary()).join(" ");
}

function connect(text, kind, summarized = text) {
  say(link, text);
  link.className = kind;
  say(summary, summarized);
}

async function turn() {
  try {
    if (paused || document.hidden) return;
    const news = await ask(`live.json?known=${versions.join()}`).catch((error) => error);
    if (!(news instanceof Error)) {
      show(news);
      return;
    }
    tick();
    if (ended) {
      connect("the run has ended", "link", stand());
    } else {
      lost ??= new Date().toISOString().slice(11, 19);
      connect(`no answer since ${lost} UTC: ${news.message}`, "link lost");
    }
  } finally {
    setTimeout(turn, EVERY);
  }
}

pause.addEventListener("click", () => {
  paused = !paused;
  say(pause, paused ? "Resume updates" : "Pause updates");
  connect(paused ? "paused" : "connecting", "link");
});
turn();
