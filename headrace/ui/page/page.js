// Asks for news once a second while the page is seen, and gives each pipeline its own.
import { element, say } from "./elements.js";
import { PipelineView } from "./pipeline.js";

const EVERY = 1000, SUMMARY_EVERY = 30000, PATIENCE = 20000;
const where = document.getElementById("pipelines"), link = document.getElementById("link");
const pause = document.getElementById("pause"), summary = document.getElementById("summary"), contents = document.getElementById("contents");
let views = [], versions = [], paused = false, lost = null, told = 0, phases = "", ended = false;

async function ask(address) {
  const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE) });
  const document = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(document?.error ?? (answer.status === 401 ? "The page's token is not known any more: open the address that was printed." : `answer ${answer.status}`));
  return document;
}

function begin(number) {
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
  document.title = views.length === 1 ? `${views[0].snapshot.title}: ${views[0].chip.textContent} - Headrace` : "Headrace";
}

function show(news) {
  if (views.length !== news.length) begin(news.length);
  news.forEach(({ version, snapshot }, place) => {
    if (snapshot !== null) {
      versions[place] = version;
      views[place].update(snapshot);
    } else {
      views[place].tick();
    }
  });
  list();
  ended = news.length === 1 && views[0].snapshot.live && ["finished", "failed"].includes(views[0].snapshot.standing.phase);
}

/** Tell screen readers when a pipeline stands otherwise than before, and the figures now and then. */
function summarize(now) {
  const standing = views.map((view) => view.snapshot.standing.phase).join();
  if (standing === phases && now - told < SUMMARY_EVERY) return;
  phases = standing;
  told = now;
  summary.textContent = views.map((view) => view.summary()).join(" ");
}

async function turn() {
  if (!paused && !document.hidden) {
    try {
      show(await ask(`live.json?known=${versions.join()}`));
      lost = null;
      say(link, "live");
      link.className = "link live";
      summarize(Date.now());
    } catch (error) {
      lost ??= new Date();
      const since = lost.toISOString().slice(11, 19);
      say(link, ended ? "the run has ended" : error instanceof TypeError ? `no answer since ${since} UTC: what served the page has ended` : error.message);
      link.className = ended ? "link" : "link lost";
      views.forEach((view) => view.tick());
    }
  }
  setTimeout(turn, EVERY);
}

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  say(pause, paused ? "Resume updates" : "Pause updates");
  say(link, paused ? "paused" : "connecting");
  link.className = "link";
});
document.addEventListener("visibilitychange", () => { told = 0; });
turn();
