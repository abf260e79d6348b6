// The list of matches: what each shows, which one is chosen, and the feedback on it.

import { feedbackKey, list, side, state } from "./state.js";
import { allWords, fill, idLink, make, percent } from "./text.js";

// The Tab key stops at the list as a whole; its links are reached by mouse, by the key "o" and in the dialog.
const OFF_TAB = { tabindex: "-1" };
const LIKELY = 0.05;

/** Whether the probabilities of an answer say something; the same limit as in gedbd/triage/answer.py. */
export const isAnyLikely = () => state.matches.some((match) => match.probability >= LIKELY);

export function option(match, number) {
  const { master, best, members, explanation } = match;
  const terms = allWords(explanation.terms.join(" "));
  const item = make("li", { role: "option", id: `option-${number}`, "aria-selected": "false" });
  if (match.suggested) item.classList.add("suggested");
  const shown = isAnyLikely() ? percent(match.probability) : `similarity ${match.similarity.toFixed(2)}`;
  const odds = make("span", { class: "odds" }, shown);
  const word = match.suggested ? `Likely a duplicate: ${side(match)}` : side(match);
  const id = idLink(master.issue_id, master.url, { class: "id", ...OFF_TAB });
  item.append(make("div", { class: "line" }, id, bar(match.probability), odds));
  item.append(fill(make("p", { class: "title", dir: "auto" }), master.title || "(no title)", terms));
  const facts = [date(master), master.component, master.status].filter(Boolean);
  const inWords = state.threshold === null ? [] : [make("span", { class: "word" }, word)];
  const parts = [...inWords, ...facts.map((fact) => make("bdi", {}, fact))];
  item.append(make("p", { class: "quiet" }, ...parts.flatMap((part, place) => (place ? [" · ", part] : [part]))));
  item.append(...others(match, terms), ...explain(match, terms), make("p", { class: "feedback", hidden: "" }));
  showFeedback(item, best.issue_id, members);
  return item;
}

function others({ master, best, members, urls }, terms) {
  const found = [];
  const links = members.filter((id) => id !== master.issue_id).map((id) => idLink(id, urls[id], OFF_TAB));
  if (links.length) found.push(make("p", { class: "quiet" }, "Duplicates: ", ...some(links)));
  if (best.issue_id !== master.issue_id) {
    const title = fill(make("bdi"), best.title, terms);
    found.push(make("p", { class: "quiet" }, "Most similar: ", idLink(best.issue_id, best.url, OFF_TAB), " ", title));
  }
  return found;
}

function explain({ best, explanation }, marked) {
  const found = [];
  if (explanation.reasons.length) found.push(make("p", { class: "quiet" }, `Because: ${explanation.reasons.join(", ")}`));
  const terms = explanation.terms.slice(0, 8).map((term) => make("span", { class: "term", dir: "auto" }, term));
  if (terms.length) found.push(make("p", { class: "terms" }, ...terms));
  const equal = Object.entries(explanation.fields).map(([name, value]) => make("bdi", {}, `${name}: ${value}`));
  if (equal.length) found.push(make("p", { class: "quiet" }, "Same ", ...some(equal)));
  const sentence = explanation.sentences.find(({ stored }) => stored !== best.title);
  if (sentence) found.push(fill(make("blockquote", { dir: "auto" }), sentence.stored.slice(0, 300), marked));
  const nothing = make("p", { class: "quiet" }, "The two reports have nothing obvious in common.");
  return found.length ? found : [nothing];
}

function bar(share) {
  const inner = make("span", { class: "bar-fill" });
  inner.style.width = `${100 * share}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}

/** The first six texts or elements with commas between them, and how many more there are. */
function some(parts) {
  const shown = parts.slice(0, 6).flatMap((part, place) => (place ? [", ", part] : [part]));
  return parts.length > 6 ? [...shown, ` and ${parts.length - 6} more`] : shown;
}

function date(stored) {
  return stored.created_at ? stored.created_at.slice(0, 10).replaceAll("-", "\u2011") : "";
}

export function choose(number, scroll = true) {
  const options = [...list.children];
  if (!options.length) return list.removeAttribute("aria-activedescendant");
  state.chosen = Math.max(0, Math.min(number, options.length - 1));
  options.forEach((item, place) => item.setAttribute("aria-selected", String(place === state.chosen)));
  list.setAttribute("aria-activedescendant", `option-${state.chosen}`);
  if (scroll) options[state.chosen].scrollIntoView({ block: "nearest" });
}

export function showAllFeedback() {
  state.matches.forEach((match, number) => showFeedback(list.children[number], match.best.issue_id, match.members));
}

function showFeedback(item, best, members) {
  const rated = [best, ...members].find((id) => state.feedback.has(feedbackKey(id)));
  const line = item.querySelector(".feedback");
  line.hidden = rated === undefined;
  if (line.hidden) return;
  const accepted = state.feedback.get(feedbackKey(rated)) === "accept";
  line.textContent = `${accepted ? "✓ Your feedback: duplicate" : "✕ Your feedback: not a duplicate"} of #${rated}`;
}
