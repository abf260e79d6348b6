// What the page asks of the service, and what goes wrong in plain words.

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

export async function ask(method, path, body, signal) {
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
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  throw new Problem(answer.status, inWords(answer.status, content.detail));
}

function inWords(status, detail) {
  if (status === 401) return "This service needs a token.";
  if (status === 404) return "This report is no longer there. Somebody may have deleted it.";
  if (status === 413) return "This report is too large to be sent. Shorten the description.";
  if (status === 503) return `The service is busy: ${detail || "try again in a moment"}.`;
  if (status >= 500) return "The service failed at this. Its log says more.";
  return `The service does not take this: ${detail || status}.`;
}
