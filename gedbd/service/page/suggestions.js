// What the webhook suggested, or would have suggested in shadow mode, and how it turned out.

import { Problem, callService } from "./service.js";
import { $ } from "./state.js";
import { make, percent } from "./text.js";

/** Shows the suggestions so far, each time that somebody opens the list. */
export function offerSuggestions() {
  $("suggestions").hidden = false;
  $("suggestions").addEventListener("toggle", () => $("suggestions").open && load());
}

async function load() {
  try {
    show(await callService("GET", "api/suggestions"));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    $("suggestions-note").textContent = error.message;
  }
}

function show(answer) {
  $("suggestions-note").textContent = [answer.how_to_write, answer.statement].filter(Boolean).join(" ");
  $("suggestions-table").hidden = !answer.suggestions.length;
  $("suggestions-table").tBodies[0].replaceChildren(...answer.suggestions.map(row));
}

function row({ issue, moment, named, is_list, outcome }) {
  const measured = is_list ? named : named.slice(0, 1);
  const ids = measured.map((one) => `#${one.issue}`).join(", ");
  const probability = Math.min(1, measured.reduce((sum, one) => sum + one.probability, 0));
  const cells = [`#${issue}`, moment.slice(0, 10), ids, percent(probability), outcome];
  return make("tr", {}, ...cells.map((text) => make("td", {}, text)));
}
