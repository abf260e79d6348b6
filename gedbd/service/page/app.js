// One report on the left, its candidates on the right; comparing, judging and taking back.

import { Problem, ask, keepToken } from "./service.js";
import { fill, make, percent, shared } from "./text.js";

const WAIT_MS = 250;
const TOAST_MS = 12000;
const SHOWN = 10;
const FIELDS = ["component", "product", "version", "os"];
const $ = (id) => document.getElementById(id);
const [form, list, comparison] = [$("report"), $("candidates"), $("comparison")];
const state = { matches: [], chosen: 0, threshold: null, verdicts: new Map(), last: null, stored: null, afterToken: null };
let [timer, toastTimer, running] = [0, 0, null];

function report() {
  const values = Object.fromEntries(new FormData(form));
  return { ...values, issue_id: values.issue_id.trim() };
}

function verdictKey(candidate) {
  const { issue_id: id, title, description } = report();
  return JSON.stringify([id || [title, description], candidate]);
}

function say(text) {
  $("status").textContent = text;
}

function showProblem(error, retry) {
  if (error.status === 401) askToken(retry, error);
  showMatches(null);
  $("empty").hidden = true;
  $("problem").hidden = false;
  $("problem-text").textContent = error.message;
  state.retry = retry;
}

async function search() {
  running?.abort();
  const own = report();
  if (!own.title.trim() && !own.description.trim()) return showMatches(null);
  running = new AbortController();
  const { signal } = running;
  say("Searching …");
  try {
    const answer = await ask("POST", "api/search", { ...own, top_k: SHOWN }, signal);
    if (!signal.aborted) showMatches(answer);
  } catch (error) {
    if (!(error instanceof Problem)) {
      if (error.name !== "AbortError") throw error;
      return;
    }
    say("");
    showProblem(error, search);
  }
}

function showMatches(answer) {
  state.matches = answer?.matches ?? [];
  state.threshold = answer?.threshold ?? null;
  state.chosen = 0;
  $("problem").hidden = true;
  list.hidden = !state.matches.length;
  $("empty").hidden = !list.hidden;
  list.replaceChildren(...state.matches.map(option));
  choose(0, false);
  if (!answer) {
    $("threshold").hidden = true;
    $("empty").textContent =
      "Type or paste a report. The reports of the tracker that tell the same appear here, the most probable first.";
    return say("");
  }
  const count = state.matches.length;
  $("tracker").textContent = `${answer.tracker}, ${answer.reports.toLocaleString("en")} reports`;
  $("empty").textContent = `None of the ${answer.reports.toLocaleString("en")} reports is alike. This one may be new.`;
  say(count === 1 ? "1 candidate" : `${count} candidates`);
  $("threshold").hidden = !count;
  $("threshold").textContent =
    answer.threshold === null
      ? "The history of this tracker gives no threshold: judge each candidate for yourself."
      : `From ${percent(answer.threshold)} on, ${percent(answer.precision)} of suggestions were right in the past.`;
}

function side(match) {
  if (state.threshold === null) return "no threshold to compare with";
  return match.sure ? "above the threshold" : "below the threshold";
}

function bar(share) {
  const inner = make("span", { class: "bar-fill" });
  inner.style.width = `${100 * share}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}

function option(match, number) {
  const { master, best, members, why } = match;
  const terms = new Set(why.terms.map((term) => term.toLowerCase()));
  const item = make("li", { role: "option", id: `option-${number}`, "aria-selected": "false" });
  if (match.sure) item.classList.add("sure");
  const odds = make("span", { class: "odds" }, percent(match.probability));
  const word = match.sure ? `Likely the same: ${side(match)}` : side(match);
  item.append(make("div", { class: "line" }, make("span", { class: "id" }, `#${master.issue_id}`), bar(match.probability), odds));
  item.append(fill(make("p", { class: "title" }), master.title || "(no title)", terms));
  const facts = [date(master), master.component, master.status].filter(Boolean).join(" · ");
  const inWords = state.threshold === null ? [] : [make("span", { class: "word" }, word), facts && " · "];
  item.append(make("p", { class: "quiet" }, ...inWords, facts));
  const others = members.filter((id) => id !== master.issue_id);
  if (others.length) item.append(make("p", { class: "quiet" }, `Duplicates: ${some(others.map((id) => `#${id}`))}`));
  if (best.issue_id !== master.issue_id) item.append(fill(make("p", { class: "quiet" }), `Closest: #${best.issue_id} ${best.title}`, terms));
  item.append(...reasons(why, terms), make("p", { class: "verdict", hidden: "" }));
  item.addEventListener("click", () => { choose(number, false); compare(); });
  showVerdict(item, best.issue_id, members);
  return item;
}

function reasons(why, terms) {
  const found = [];
  if (why.terms.length) found.push(make("p", { class: "terms" }, ...why.terms.slice(0, 8).map((term) => make("span", { class: "term" }, term))));
  const agreeing = Object.entries(why.fields).map(([name, value]) => `${name} ${value}`);
  if (agreeing.length) found.push(make("p", { class: "quiet" }, `Agree: ${some(agreeing)}`));
  for (const { stored } of why.sentences.slice(0, 1)) found.push(fill(make("blockquote"), stored.slice(0, 300), terms));
  return found;
}

const some = (names) => (names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", "));
const date = (stored) => (stored.created_at ? stored.created_at.slice(0, 10).replaceAll("-", "\u2011") : "");

function choose(number, scroll = true) {
  const options = [...list.children];
  if (!options.length) return list.removeAttribute("aria-activedescendant");
  state.chosen = Math.max(0, Math.min(number, options.length - 1));
  options.forEach((item, place) => item.setAttribute("aria-selected", String(place === state.chosen)));
  list.setAttribute("aria-activedescendant", `option-${state.chosen}`);
  if (scroll) options[state.chosen].scrollIntoView({ block: "nearest" });
}

function compare() {
  const match = state.matches[state.chosen];
  if (!match) return;
  const ids = [...new Set([match.best.issue_id, match.master.issue_id, ...match.members])];
  const label = (id) => `#${id}${id === match.best.issue_id ? ", the closest" : ""}${id === match.master.issue_id ? ", the oldest" : ""}`;
  $("member").replaceChildren(...ids.map((id) => make("option", { value: id }, label(id))));
  $("comparison-odds").textContent = `${percent(match.probability)} probable, ${side(match)}`;
  if (!comparison.open) comparison.showModal();
  $("accept").focus();
  load();
}

async function load() {
  const id = $("member").value;
  state.stored = null;
  showSides({ title: "Loading …", description: "" });
  $("comparison-problem").hidden = true;
  try {
    const stored = await ask("GET", `api/reports/${encodeURIComponent(id)}`);
    if ($("member").value !== id) return;
    state.stored = stored;
    showSides(stored);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askToken(load, error);
    showSides({ title: "", description: "" });
    showComparisonProblem(error.message);
  }
}

function showComparisonProblem(text) {
  $("comparison-problem").hidden = false;
  $("comparison-problem").textContent = text;
}

function showSides(stored) {
  const own = report();
  const common = shared(`${own.title} ${own.description}`, `${stored.title} ${stored.description}`);
  $("stored-head").textContent = `Stored report #${$("member").value}`;
  fill($("own-title"), own.title || "(no title)", common);
  fill($("own-text"), own.description || "(no description)", common);
  fill($("stored-title"), stored.title, common);
  fill($("stored-text"), stored.description, common);
  const rows = FIELDS.filter((name) => stored[name] || own[name]).map((name) => {
    const [mine, theirs] = [own[name] || "", stored[name] || ""];
    const word = !mine || !theirs ? "" : mine.toLowerCase() === theirs.toLowerCase() ? "same" : "different";
    return make("tr", {}, make("th", { scope: "row" }, name), ...[mine || "–", theirs || "–", word].map((text) => make("td", {}, text)));
  });
  $("fields").hidden = !rows.length;
  $("fields").tBodies[0].replaceChildren(...rows);
}

async function judge(verdict, candidate = null) {
  const match = state.matches[state.chosen];
  if (!match) return;
  const chosen = candidate ?? (comparison.open ? $("member").value : match.best.issue_id);
  const key = verdictKey(chosen);
  const before = state.verdicts.get(key) ?? "withdraw";
  const sent = { report: report(), candidate: chosen, verdict, source: "web" };
  if (await send(sent)) {
    state.last = { ...sent, verdict: before, key };
    remember(key, verdict);
    if (comparison.open) comparison.close();
    toast(verdict === "accept" ? `Noted: the same fault as #${chosen}.` : `Noted: not the same as #${chosen}.`, true);
  }
}

async function undo() {
  if (!state.last) return;
  const { key, ...sent } = state.last;
  if (await send(sent)) {
    remember(key, sent.verdict);
    state.last = null;
    toast(`Taken back: your verdict on #${sent.candidate}.`, false);
  }
}

async function send(sent) {
  try {
    await ask("POST", "api/feedback", sent);
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askToken(() => {}, error);
    else if (comparison.open) showComparisonProblem(`Not kept. ${error.message}`);
    else toast(`Not kept. ${error.message}`, Boolean(state.last));
    return false;
  }
}

function remember(key, verdict) {
  if (verdict === "withdraw") state.verdicts.delete(key);
  else state.verdicts.set(key, verdict);
  state.matches.forEach((match, number) => showVerdict(list.children[number], match.best.issue_id, match.members));
}

function showVerdict(item, best, members = []) {
  const said = [best, ...members].map((id) => [id, state.verdicts.get(verdictKey(id))]).find(([, verdict]) => verdict);
  const line = item.querySelector(".verdict");
  line.hidden = !said;
  if (said) line.textContent = said[1] === "accept" ? `✓ You said: the same fault as #${said[0]}` : `✕ You said: not the same as #${said[0]}`;
}

function toast(text, undoable) {
  clearTimeout(toastTimer);
  $("toast-text").textContent = text;
  $("undo").hidden = !undoable;
  $("toast").hidden = false;
  toastTimer = setTimeout(() => ($("toast").hidden = true), TOAST_MS);
}

function askToken(then, error) {
  state.afterToken = then;
  $("token-problem").textContent = $("token").value ? "This token is not the right one." : "";
  $("token").value = "";
  if (comparison.open) comparison.close();
  if (!$("token-dialog").open) $("token-dialog").showModal();
}

function moveBy(step) {
  list.focus({ preventScroll: true });
  choose(state.chosen + step);
}

const ACTIONS = {
  ArrowDown: () => moveBy(1), j: () => moveBy(1), ArrowUp: () => moveBy(-1), k: () => moveBy(-1),
  Enter: compare, a: () => judge("accept"), r: () => judge("reject"), u: undo,
  "/": () => $("description").focus(), "?": () => $("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target.closest("input, textarea, select");
  if (writing && event.key === "Escape" && !document.querySelector("dialog[open]")) return list.hidden ? writing.blur() : list.focus();
  const pressed = event.target.closest("button, a") && event.key === "Enter";
  const dialog = document.querySelector("dialog[open]");
  const allowed = !dialog || (dialog === comparison && ["a", "r"].includes(event.key));
  if (writing || pressed || !allowed || !Object.hasOwn(ACTIONS, event.key)) return;
  event.preventDefault();
  ACTIONS[event.key]();
});
form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, WAIT_MS); });
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); search(); });
$("again").addEventListener("click", () => state.retry?.());
$("member").addEventListener("change", load);
$("accept").addEventListener("click", () => judge("accept"));
$("reject").addEventListener("click", () => judge("reject"));
$("undo").addEventListener("click", undo);
$("show-keys").addEventListener("click", () => $("keys").showModal());
comparison.addEventListener("close", () => { if (!list.hidden) list.focus({ preventScroll: true }); });
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken($("token").value.trim());
  $("token-dialog").close();
  state.afterToken?.();
});
ask("GET", "api/health").then(
  ({ reports }) => ($("tracker").textContent = `${reports.toLocaleString("en")} reports`),
  (error) => showProblem(error, search),
);
if (form.elements.title.value || form.elements.description.value) search();
$("title").focus();
