// Builds elements from text. Text of reports is only ever set as text, never as markup.

// Characters without a shape, which could hide or reorder text. Joiners stay in words of scripts that are spelt with
// them. The same as gedbd/io/plain_text.py, but for line breaks and tabs.
const SHAPELESS = /[\p{C}\p{Z}]/gu;
const JOINED = /[^\0-\u058f\u2000-\u206f]/;
const WORD = /[\p{L}\p{N}_]{2,}/gu;
const MAX_MARKED = 40000;
const COMMON = new Set(
  ("the and for not with but was are that this from when then there have has had its you can does did into after " +
    "before over out off all any will would should could they them one two also just only very than what which is it " +
    "in on of to at by an as be or if no so do my we he me too some while until more most again each " +
    "every am been").split(" "),
);

/** A text with a blank for each character without a shape. */
export function printable(text) {
  const isJoiner = (sign, place) =>
    "\u200c\u200d".includes(sign) && JOINED.test(text[place - 1] ?? "") && JOINED.test(text[place + 1] ?? "");
  return text.replace(SHAPELESS, (sign, place) => ("\n\t".includes(sign) || isJoiner(sign, place) ? sign : " "));
}

export function words(text) {
  const found = text.slice(0, MAX_MARKED).toLowerCase().match(WORD) || [];
  return new Set(found.filter((word) => !COMMON.has(word)));
}

export function shared(first, second) {
  const other = words(second);
  return new Set([...words(first)].filter((word) => other.has(word)));
}

/** Fills an element with a text in which some words are marked. */
export function fill(element, text, marked) {
  const parts = [];
  let last = 0;
  for (const match of text.slice(0, MAX_MARKED).matchAll(WORD)) {
    if (!marked.has(match[0].toLowerCase())) continue;
    parts.push(text.slice(last, match.index), make("mark", {}, match[0]));
    last = match.index + match[0].length;
  }
  element.replaceChildren(...parts, text.slice(last));
  return element;
}

/** A new element with attributes and content. */
export function make(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}

/** The id of a report as a link to its page in the tracker, or as plain text where no web address is known. */
export function idLink(id, url, attributes = {}) {
  if (!/^https?:\/\//i.test(url ?? "")) return make("span", { ...attributes, dir: "auto" }, `#${id}`);
  return make("a", { ...attributes, dir: "auto", href: url, target: "_blank", rel: "noopener noreferrer" }, `#${id}`);
}

export function percent(share) {
  if (share > 0.99 && share < 1) return "over 99%";
  if (share > 0 && share < 0.01) return "under 1%";
  return `${Math.round(100 * share)}%`;
}
