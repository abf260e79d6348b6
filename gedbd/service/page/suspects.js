// The files of the repository that a report may be about, and the commits that may have induced its bug.

import { Problem, callService } from "./service.js";
import { $, state } from "./state.js";
import { make } from "./text.js";

const TOP_K = 5;
const SHORT_ID = 10;

/** Finds the files and suspect commits of a report; null hides them. */
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
    showLists([], []);
  }
}

function showSuspects(answer) {
  const files = `${answer.num_files.toLocaleString("en")} source files`;
  const ranked = `${files} and ${answer.num_ranked.toLocaleString("en")} commits of ${answer.repository} were ranked.`;
  const problem = answer.problem && `Note: ${answer.problem}.`;
  showNote([ranked, answer.statement, problem].filter(Boolean).join(" "));
  showLists(answer.files, answer.changes);
}

function showLists(files, changes) {
  $("file-list").replaceChildren(...files.map(file));
  $("changes-title").hidden = !changes.length;
  $("suspect-list").replaceChildren(...changes.map(suspect));
}

function showNote(text) {
  $("suspects").hidden = false;
  $("suspects-note").textContent = text;
}

function file({ path, explanation, places }) {
  const item = make("li", {}, make("p", { class: "title" }, path));
  item.append(make("p", { class: "quiet" }, explanation.join("; ")), ...places.map(place));
  return item;
}

function place({ path, start, end, name, lines, num_left_out, commits }) {
  const head = make("summary", { class: "quiet" }, `${path}:${start}\u2013${end} ${name.trim()}`);
  const text = make("pre", { class: "text", tabindex: "0" }, ...lines.flatMap(line));
  if (num_left_out) text.append(`lines that the stack trace names too: ${num_left_out}`);
  return make("details", {}, head, text, ...commits.map((commit) => make("p", { dir: "auto" }, heading(commit), commit.title)));
}

/** The id and date of a commit. */
function heading({ id, created_at }) {
  const date = created_at.slice(0, 10).replaceAll("-", "\u2011");
  const short = make("span", { class: "id", title: id }, id.slice(0, SHORT_ID));
  return make("div", { class: "line" }, short, make("span", { class: "quiet" }, date));
}

function suspect(change) {
  const item = make("li", {}, heading(change));
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
