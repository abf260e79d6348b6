// Calls of the API, and error messages in plain words.

import { printable } from "./text.js";

const TOKEN = "gedbd-token";

export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export async function callService(method, path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? body : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached. Your text is still here; try again in a moment.");
  }
  // Whatever the page shows of other people comes this way. Each text is made safe to show before it is used.
  const shown = (_, value) => (typeof value === "string" ? printable(value) : value);
  const content = await answer.text().then((text) => JSON.parse(text, shown)).catch(() => ({}));
  if (answer.ok) return content;
  throw new Problem(answer.status, describe(answer.status, content.detail));
}

function describe(status, detail) {
  if (status === 401) return "This service needs a token.";
  if (status === 404) return "This report no longer exists. It may have been deleted.";
  if (status === 413) return "This report is too large. Shorten the description.";
  if (status === 503) return `The service is busy: ${detail || "try again in a moment"}.`;
  if (status >= 500) return "The service had an internal error. See its log for details.";
  return `The service refused the request: ${detail || status}.`;
}
