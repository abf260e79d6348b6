// Feedback on a match: duplicate or not, and undo.

import { showComparisonProblem } from "./compare.js";
import { showAllFeedback } from "./list.js";
import { Problem, callService } from "./service.js";
import { $, askToken, comparison, feedbackKey, report, state } from "./state.js";

const TOAST_MS = 12000;
let toastTimer = 0;

export async function giveFeedback(verdict) {
  const match = state.matches[state.chosen];
  if (!match) return;
  const chosen = comparison.open ? $("member").value : match.best.issue_id;
  const key = feedbackKey(chosen);
  const before = state.feedback.get(key) ?? "withdraw";
  const sent = { report: report(), candidate: chosen, verdict, source: "web" };
  if (await send(sent)) {
    state.last = { ...sent, verdict: before, key };
    remember(key, verdict);
    if (comparison.open) comparison.close();
    toast(verdict === "accept" ? `Saved: duplicate of #${chosen}.` : `Saved: not a duplicate of #${chosen}.`, true);
  }
}

export async function undo() {
  if (!state.last) return;
  const { key, ...sent } = state.last;
  if (await send(sent)) {
    remember(key, sent.verdict);
    state.last = null;
    toast(`Undone: your feedback on #${sent.candidate}.`, false);
  }
}

async function send(sent) {
  try {
    await callService("POST", "api/feedback", sent);
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askToken(() => {});
    else if (comparison.open) showComparisonProblem(`Not saved. ${error.message}`);
    else toast(`Not saved. ${error.message}`, Boolean(state.last));
    return false;
  }
}

function remember(key, verdict) {
  if (verdict === "withdraw") state.feedback.delete(key);
  else state.feedback.set(key, verdict);
  showAllFeedback();
}

function toast(text, undoable) {
  clearTimeout(toastTimer);
  $("toast-text").textContent = text;
  $("undo").hidden = !undoable;
  $("toast").hidden = false;
  toastTimer = setTimeout(() => ($("toast").hidden = true), TOAST_MS);
}
