// Shared by the scripts of the page: its elements, the matches shown, the feedback given, the report in the form.

export const $ = (id) => document.getElementById(id);
export const [form, list, comparison] = [$("report"), $("candidates"), $("comparison")];
export const state = {
  matches: [], chosen: 0, threshold: null, locates: false,
  feedback: new Map(), last: null,
  retry: null, afterToken: null,
};

export function report() {
  const values = Object.fromEntries(new FormData(form));
  return { ...values, issue_id: values.issue_id.trim() };
}

export function feedbackKey(candidate) {
  const { issue_id: id, title, description } = report();
  return JSON.stringify([id || [title, description], candidate]);
}

export function side(match) {
  return match.suggested ? "above the threshold" : "below the threshold";
}

export function askToken(then) {
  state.afterToken = then;
  $("token-problem").textContent = $("token").value ? "This token was not accepted." : "";
  $("token").value = "";
  if (comparison.open) comparison.close();
  if (!$("token-dialog").open) $("token-dialog").showModal();
}
