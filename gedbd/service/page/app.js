// The form on the left and the list of matches on the right: searches while the user types, and handles the keys.

import { compare, load } from "./compare.js";
import { choose, isAnyLikely, option } from "./list.js";
import { Problem, callService, keepToken } from "./service.js";
import { $, askToken, comparison, form, list, report, state } from "./state.js";
import { findSuspects } from "./suspects.js";
import { offerSuggestions } from "./suggestions.js";
import { percent } from "./text.js";
import { giveFeedback, undo } from "./feedback.js";

const WAIT_MS = 250;
const TOP_K = 10;
let [timer, running] = [0, null];

function showStatus(text) {
  $("status").textContent = text;
}

function showProblem(error, retry) {
  if (error.status === 401) askToken(retry);
  showMatches(null);
  $("empty").hidden = true;
  $("problem").hidden = false;
  $("problem-text").textContent = error.message;
  state.retry = retry;
}

async function search() {
  running?.abort();
  const own = report();
  if (!own.title.trim() && !own.description.trim()) {
    findSuspects(null);
    return showMatches(null);
  }
  running = new AbortController();
  const { signal } = running;
  showStatus("Searching …");
  findSuspects(own, signal);
  try {
    const answer = await callService("POST", "api/search", { ...own, top_k: TOP_K }, signal);
    if (!signal.aborted) showMatches(answer);
  } catch (error) {
    if (!(error instanceof Problem)) {
      if (error.name !== "AbortError") throw error;
      return;
    }
    showStatus("");
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
      "Type or paste a report. Similar reports from the tracker appear here, best match first.";
    return showStatus("");
  }
  const count = state.matches.length;
  $("tracker").textContent = `${answer.tracker}, ${answer.reports.toLocaleString("en")} reports`;
  $("empty").textContent = `None of the ${answer.reports.toLocaleString("en")} reports is similar. This may be a new bug.`;
  const unlikely = count && !isAnyLikely() ? ", none of them likely to be a duplicate; the closest first" : "";
  showStatus(`${count === 1 ? "1 candidate" : `${count} candidates`}${unlikely}`);
  $("threshold").hidden = !count;
  const measured =
    answer.threshold === null
      ? `${answer.target.statement} Check each candidate yourself.`
      : `Suggested from a probability of ${percent(answer.threshold)}. ${answer.target.statement}`;
  // A list says nothing new where one match alone is suggested.
  const ofList = answer.matches.some((match) => match.suggested) ? "" : answer.list_statement;
  $("threshold").textContent = [ofList, measured].filter(Boolean).join(" ");
}

function moveBy(step) {
  list.focus({ preventScroll: true });
  choose(state.chosen + step);
}

function openInTracker() {
  const place = comparison.open ? $("stored-head") : list.children[state.chosen];
  place?.querySelector("a")?.click();
}

const ACTIONS = {
  ArrowDown: () => moveBy(1), j: () => moveBy(1), ArrowUp: () => moveBy(-1), k: () => moveBy(-1),
  Enter: compare, a: () => giveFeedback("accept"), r: () => giveFeedback("reject"), u: undo,
  o: openInTracker,
  "/": () => $("description").focus(), "?": () => $("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target.closest("input, textarea, select");
  const dialog = document.querySelector("dialog[open]");
  if (writing && event.key === "Escape" && !dialog) return list.hidden ? writing.blur() : list.focus();
  const pressed = event.target.closest("button, a") && event.key === "Enter";
  const allowed = !dialog || (dialog === comparison && ["a", "r", "o"].includes(event.key));
  if (writing || pressed || !allowed || !Object.hasOwn(ACTIONS, event.key)) return;
  event.preventDefault();
  ACTIONS[event.key]();
});
form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, WAIT_MS); });
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); search(); });
list.addEventListener("click", ({ target }) => {
  if (target.closest("a")) return;
  const clicked = [...list.children].indexOf(target.closest("[role=option]"));
  if (clicked < 0) return;
  choose(clicked, false);
  compare();
});
$("again").addEventListener("click", () => state.retry?.());
$("member").addEventListener("change", load);
$("accept").addEventListener("click", () => giveFeedback("accept"));
$("reject").addEventListener("click", () => giveFeedback("reject"));
$("undo").addEventListener("click", undo);
$("show-keys").addEventListener("click", () => $("keys").showModal());
comparison.addEventListener("close", () => { if (!list.hidden) list.focus({ preventScroll: true }); });
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken($("token").value.trim());
  $("token-dialog").close();
  state.afterToken?.();
});
callService("GET", "api/health").then(
  ({ reports, locates, suggests }) => {
    $("tracker").textContent = `${reports.toLocaleString("en")} reports`;
    if (suggests) offerSuggestions();
    state.locates = locates;
    if (locates && (form.elements.title.value || form.elements.description.value)) search();
  },
  (error) => showProblem(error, search),
);
if (form.elements.title.value || form.elements.description.value) search();
$("title").focus();
