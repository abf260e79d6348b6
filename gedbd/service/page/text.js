// Builds elements from text. Text of reports is only ever set as text, never as markup.

// Characters without a shape, which could hide or reorder text. Joiners stay in words of scripts that are spelt with
// them. The same as gedbd/io/plain_text.py, but for line breaks and tabs.
const SHAPELESS = /[\p{C}\p{Z}]/gu;
const JOINED = /[^\0-\u058f\u2000-\u206f]/;
// Runs of Chinese, Japanese and Korean characters, whose pairs are words, and other words; as gedbd/text/words.py.
const CJK = "[\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Hang}\u30fc]";
const WORD = new RegExp(`(${CJK}+)|(?:(?!${CJK})[\\p{L}\\p{N}_]){2,}`, "gu");
const OTHER_WIDTH = /[\uff01-\uffdc]+/g;
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

/** The words of a composed text, normalised, each with its beginning and end. */
function* placed(text) {
  for (const match of text.slice(0, MAX_MARKED).matchAll(WORD)) {
    if (!match[1]) yield [normalise(match[0]), match.index, match.index + match[0].length];
    const letters = [...(match[1] ?? "")]; // a rare ideograph has the length 2
    let start = match.index;
    for (const [place, letter] of letters.entries()) {
      const pair = letter + (letters[place + 1] ?? "");
      if (place + 1 < letters.length || !place) yield [pair, start, start + pair.length];
      start += letter.length;
    }
  }
}

function normalise(word) {
  const usual = word.replace(OTHER_WIDTH, (wide) => wide.normalize("NFKC"));
  return usual.toLowerCase().replaceAll("\u00df", "ss").replaceAll("\u0451", "\u0435");
}

/** All words of a text. */
export function allWords(text) {
  return new Set([...placed(text.normalize("NFC"))].map(([word]) => word));
}

export function words(text) {
  return new Set([...allWords(text)].filter((word) => !COMMON.has(word)));
}

export function shared(first, second) {
  const other = words(second);
  return new Set([...words(first)].filter((word) => other.has(word)));
}

/** Fills an element with a text in which some words are marked, pairs that overlap as one. */
export function fill(element, text, marked) {
  const composed = text.normalize("NFC");
  const spans = [];
  for (const [word, start, end] of placed(composed)) {
    if (!marked.has(word)) continue;
    if (spans.length && start < spans.at(-1)[1]) spans.at(-1)[1] = end;
    else spans.push([start, end]);
  }
  const parts = [];
  let last = 0;
  for (const [start, end] of spans) {
    parts.push(composed.slice(last, start), make("mark", {}, composed.slice(start, end)));
    last = end;
  }
  element.replaceChildren(...parts, composed.slice(last));
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
