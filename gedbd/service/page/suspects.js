// The commits of the repository that may have induced the bug, below the candidates.

import { Problem, callService } from "./service.js";
import { $, state } from "./state.js";
import { make } from "./text.js";

const TOP_K = 5;
const SHORT_ID = 10;

/** Finds the suspect commits of a report; null hides them. */
export async function findSuspects(own, signal) {
  if (!state.locates || own === null) return ($("suspects").hidden = true);
  try {
    const answer = await callService("POST", "api/locate", { ...own, top_k: TOP_K }, signal);
    if (!signal.aborted) showSuspects(answer);
  } catch (error) {
    if (!(error instanceof Problem)) {
      if (error.name !== "AbortError") throw error;
      return;
    }
    showNote(error.message);
    $("suspect-list").replaceChildren();
  }
}

function showSuspects(answer) {
  const ranked = `${answer.num_ranked.toLocaleString("en")} commits of ${answer.repository} were ranked.`;
  const problem = answer.problem && `Note: ${answer.problem}.`;
  showNote([ranked, answer.statement, problem].filter(Boolean).join(" "));
  $("suspect-list").replaceChildren(...answer.changes.map(suspect));
}

function showNote(text) {
  $("suspects").hidden = false;
  $("suspects-note").textContent = text;
}

function suspect(change) {
  const date = change.created_at.slice(0, 10).replaceAll("-", "\u2011");
  const id = make("span", { class: "id", title: change.id }, change.id.slice(0, SHORT_ID));
  const item = make("li", {}, make("div", { class: "line" }, id, make("span", { class: "quiet" }, date)));
  item.append(make("p", { class: "title", dir: "auto" }, change.title || "(no message)"));
  if (change.explanation.length) item.append(make("p", { class: "quiet" }, change.explanation.join("; ")));
  item.append(...change.hunks.map(hunk));
  return item;
}

function hunk({ path, start, count, lines }) {
  const place = count ? `${path}:${start}\u2013${start + count - 1}` : path;
  const text = make("pre", { class: "text", tabindex: "0" }, ...lines.flatMap(line));
  return make("details", {}, make("summary", { class: "quiet" }, place), text);
}

/** A line with its sign and number; the places count characters, where a string of JavaScript counts UTF-16 units. */
function line({ sign, number, text, spans }) {
  const letters = Array.from(text);
  const parts = [`${String(number).padStart(5)} ${sign} `];
  let last = 0;
  for (const [start, end] of spans) {
    parts.push(letters.slice(last, start).join(""), make("mark", {}, letters.slice(start, end).join("")));
    last = end;
  }
  return [...parts, `${letters.slice(last).join("")}\n`];
}
