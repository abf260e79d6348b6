// Saying that two reports are the same fault or not, and taking it back.

import { showComparisonProblem } from "./compare.js";
import { showVerdicts } from "./list.js";
import { Problem, ask } from "./service.js";
import { $, askToken, comparison, report, state, verdictKey } from "./state.js";

const TOAST_MS = 12000;
let toastTimer = 0;

export async function judge(verdict) {
  const match = state.matches[state.chosen];
  if (!match) return;
  const chosen = comparison.open ? $("member").value : match.best.issue_id;
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

export async function undo() {
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
    if (error.status === 401) askToken(() => {});
    else if (comparison.open) showComparisonProblem(`Not kept. ${error.message}`);
    else toast(`Not kept. ${error.message}`, Boolean(state.last));
    return false;
  }
}

function remember(key, verdict) {
  if (verdict === "withdraw") state.verdicts.delete(key);
  else state.verdicts.set(key, verdict);
  showVerdicts();
}

function toast(text, undoable) {
  clearTimeout(toastTimer);
  $("toast-text").textContent = text;
  $("undo").hidden = !undoable;
  $("toast").hidden = false;
  toastTimer = setTimeout(() => ($("toast").hidden = true), TOAST_MS);
}
