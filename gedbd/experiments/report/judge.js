// Buttons in the column verdict: keeps what the reader says in the browser's storage, and offers it as a CSV file.
"use strict";

const bar = document.getElementById("judging");
const cells = [...document.querySelectorAll("td.verdict")];
const given = new Map(JSON.parse(bar.dataset.given).map((one) => [keyOf(one), one]));
const kept = readKept();
let isKept = true;

function keyOf({ report, suggested }) {
  return JSON.stringify([report, suggested]);
}

// What the browser has kept. Storage may be switched off, or hold what another program wrote.
function readKept() {
  try {
    const rows = JSON.parse(localStorage.getItem(bar.dataset.key) ?? "[]");
    return new Map(rows.map((one) => [keyOf(one), one]));
  } catch {
    return new Map();
  }
}

function keep() {
  try {
    localStorage.setItem(bar.dataset.key, JSON.stringify([...kept.values()]));
    isKept = true;
  } catch {
    isKept = false;
  }
}

// The later of the two verdicts on a pair; an empty one was withdrawn.
function verdictOn(key) {
  const mine = kept.get(key);
  const theirs = given.get(key);
  return mine && !(theirs && theirs.date > mine.date) ? mine : theirs;
}

function allVerdicts() {
  const keys = new Set([...given.keys(), ...kept.keys()]);
  return [...keys].map(verdictOn).filter((one) => one.verdict);
}

function choose(cell, value) {
  const { report, suggested } = cell.dataset;
  const key = keyOf(cell.dataset);
  const verdict = verdictOn(key)?.verdict === value ? "" : value;
  kept.set(key, { report, suggested, verdict, date: new Date().toISOString() });
  keep();
  show();
}

function show() {
  for (const cell of cells) {
    const verdict = verdictOn(keyOf(cell.dataset))?.verdict ?? "";
    const buttons = [...cell.querySelectorAll("button")];
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === verdict));
    const chosen = buttons.find((button) => button.value === verdict);
    cell.querySelector(".state").textContent = chosen ? `verdict: ${chosen.textContent}` : "no verdict";
  }
  const listed = new Set(cells.map((cell) => keyOf(cell.dataset)));
  const count = [...listed].filter((key) => verdictOn(key)?.verdict).length;
  const changed = [...kept.keys()].filter((key) => verdictOn(key).verdict !== (given.get(key)?.verdict ?? "")).length;
  const said = [`${count} of ${listed.size} pairs have a verdict.`];
  if (changed) said.push(`${changed} differ from those on the page as it was written.`);
  if (!isKept) said.push("This browser does not save verdicts: download the file before you close the page.");
  bar.querySelector("[role=status]").textContent = said.join(" ");
}

// Spreadsheet programs run cells that begin like a formula: an apostrophe makes them text, see gedbd/io/spreadsheet.py.
function csvCell(text) {
  const safe = /^['"\p{C}\p{Z}]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/u.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function download() {
  const rows = allVerdicts().map((one) => [one.report, one.suggested, one.verdict, one.date].map(csvCell).join(","));
  const text = ["report,suggested,verdict,date", ...rows, ""].join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = bar.dataset.file;
  link.click();
}

for (const cell of cells) {
  for (const button of cell.querySelectorAll("button")) {
    button.hidden = false;
    button.addEventListener("click", () => choose(cell, button.value));
  }
}
bar.hidden = false;
bar.querySelector("button").addEventListener("click", download);
show();
