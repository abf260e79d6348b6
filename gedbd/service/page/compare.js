// The dialog that shows the new report and a stored one side by side.

import { Problem, callService } from "./service.js";
import { $, askToken, comparison, report, side, state } from "./state.js";
import { fill, idLink, make, percent, shared } from "./text.js";

const FIELDS = ["component", "product", "version", "os"];

export function compare() {
  const match = state.matches[state.chosen];
  if (!match) return;
  const ids = [...new Set([match.best.issue_id, match.master.issue_id, ...match.members])];
  $("member").replaceChildren(...ids.map((id) => make("option", { value: id }, label(id, match))));
  const probability = `probability ${percent(match.probability)}`;
  $("comparison-odds").textContent = state.threshold === null ? probability : `${probability}, ${side(match)}`;
  if (!comparison.open) comparison.showModal();
  $("accept").focus();
  load();
}

function label(id, { best, master }) {
  const places = [id === best.issue_id && "most similar", id === master.issue_id && "oldest"];
  return [`#${id}`, ...places].filter(Boolean).join(", ");
}

export async function load() {
  const id = $("member").value;
  showSides({ title: "Loading …", description: "" });
  $("comparison-problem").hidden = true;
  try {
    const stored = await callService("GET", `api/reports/${encodeURIComponent(id)}`);
    if ($("member").value !== id) return;
    showSides(stored);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if ($("member").value !== id) return;
    if (error.status === 401) askToken(load);
    showSides({ title: "", description: "" });
    showComparisonProblem(error.message);
  }
}

export function showComparisonProblem(text) {
  $("comparison-problem").hidden = false;
  $("comparison-problem").textContent = text;
}

function showSides(stored) {
  const own = report();
  const common = shared(`${own.title} ${own.description}`, `${stored.title} ${stored.description}`);
  $("stored-head").replaceChildren("Stored report ", idLink($("member").value, stored.url));
  fill($("own-title"), own.title || "(no title)", common);
  fill($("own-text"), own.description || "(no description)", common);
  fill($("stored-title"), stored.title, common);
  fill($("stored-text"), stored.description, common);
  const rows = FIELDS.filter((name) => stored[name] || own[name]).map((name) => {
    const [mine, theirs] = [own[name] || "", stored[name] || ""];
    const word = !mine || !theirs ? "" : mine.toLowerCase() === theirs.toLowerCase() ? "same" : "different";
    const cells = [mine || "–", theirs || "–", word].map((text) => make("td", { dir: "auto" }, text));
    return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  });
  $("fields").hidden = !rows.length;
  $("fields").tBodies[0].replaceChildren(...rows);
}
