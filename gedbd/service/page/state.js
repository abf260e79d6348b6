// What the parts of the page share: its elements, what is shown and said, the report being written.

export const $ = (id) => document.getElementById(id);
export const [form, list, comparison] = [$("report"), $("candidates"), $("comparison")];
export const state = {
  matches: [], chosen: 0, threshold: null,
  verdicts: new Map(), last: null,
  retry: null, afterToken: null,
};

export function report() {
  const values = Object.fromEntries(new FormData(form));
  return { ...values, issue_id: values.issue_id.trim() };
}

export function verdictKey(candidate) {
  const { issue_id: id, title, description } = report();
  return JSON.stringify([id || [title, description], candidate]);
}

export function side(match) {
  return match.sure ? "above the threshold" : "below the threshold";
}

export function askToken(then) {
  state.afterToken = then;
  $("token-problem").textContent = $("token").value ? "This token is not the right one." : "";
  $("token").value = "";
  if (comparison.open) comparison.close();
  if (!$("token-dialog").open) $("token-dialog").showModal();
}
