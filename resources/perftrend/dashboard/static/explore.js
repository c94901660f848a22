/**
 * Explore, live: every choice changes the address, and the address alone decides what is shown.
 *
 * The response is the same page as without JavaScript. Its parts replace those on the page, and it contains
 * the plot as JSON.
 */

import { announce, localTimes, sendJson } from "./base.js";
import { clear, draw, highlight, unzoom } from "./explore-plot.js";
import { sortable } from "./explore-table.js";

const form = document.querySelector("#choose");
const frame = document.querySelector(".plot-frame");
const readout = document.querySelector("#readout");
const whole = document.querySelector("#whole");
const opened = new Map();
const HINT = matchMedia("(pointer: coarse)").matches
  ? "Tap a point to open it."
  : "Drag to zoom in. Click a point to open it. Shift-click a point to compare it with the open one.";
const TYPING_MS = 350;
const FIELDS = ["q", "queries", "formula", "find", "show", "by", "downsample", "spread", "changes"];
const AGGREGATES = ["ave", "min", "max", "count"];
let request = new AbortController();
let shown = null;
let addressShown = location.pathname + location.search;
let sorted = null;
let opener = null;

/** Return the address of the form's contents; the server omits defaults. */
function chosen() {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value.trim()) given.append(name, value.trim());
  }
  return `${location.pathname}?${given}`;
}

/** Show an address of this page, and add it to the history unless it is there. */
async function show(address, { push = true, replace = false, typedField = null } = {}) {
  request.abort();
  request = new AbortController();
  const { signal } = request;
  frame.classList.add("waiting");
  try {
    const html = await page(address, signal);
    const model = plotOf(html);
    if (signal.aborted) return;
    // Text that is being typed is not a step to go back to.
    if (push) history[replace ? "replaceState" : "pushState"](null, "", model.url);
    addressShown = location.pathname + location.search;
    // An incomplete query leaves the rest unchanged.
    if (typedField === "q" && model.wrong.includes("q")) {
      exchange(html, typedField, ["mistakes-q"]);
      return;
    }
    const wasOpen = Boolean(shown?.looked);
    exchange(html, typedField);
    await drawn(model);
    if (push && model.looked && !wasOpen) present();
    if (push) announce(`${model.lines.length} lines`);
  } catch (error) {
    if (error.name === "AbortError") return;
    readout.textContent = error.message;
    announce(error.message);
  } finally {
    if (!signal.aborted) frame.classList.remove("waiting");
  }
}

/**
 * Fetch a page, also one whose query has an error: the rest of it is drawn.
 * @throws {Error} with the message of the dashboard.
 */
async function page(address, signal) {
  // If the session has ended, the user signs in again and comes back. Scripts may not follow to the provider.
  const answer = await fetch(address, { signal, redirect: "manual", headers: { Accept: "text/html" } });
  if (answer.type === "opaqueredirect") location.assign(address);
  const html = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (html.querySelector("#drawn")) return html;
  if (answer.ok) location.assign(address);
  throw new Error(html.querySelector("[role=alert]")?.textContent ?? answer.statusText);
}

function plotOf(html) {
  return JSON.parse(html.querySelector("#drawn").textContent);
}

/** Replace the parts of this page with those of a fetched one; focus, sorting and scrolling are preserved. */
function exchange(html, typedField, names = null) {
  const active = document.activeElement;
  const part = active?.closest("[data-part]")?.dataset.part;
  const places = part ? placesOf(active, part) : [];
  const scrolled = document.querySelector(".parameters")?.scrollTop ?? 0;
  for (const fresh of html.querySelectorAll("[data-part]")) {
    const name = fresh.dataset.part;
    if (names && !names.includes(name)) continue;
    const old = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
    if (old && old.innerHTML !== fresh.innerHTML) old.replaceWith(document.adoptNode(fresh));
  }
  for (const name of FIELDS) {
    const fresh = html.getElementById(name), field = document.getElementById(name);
    if (!fresh || !field) continue;
    field.toggleAttribute("aria-invalid", fresh.hasAttribute("aria-invalid"));
    if (name === typedField) field.dataset.written = fresh.value;
    else field.value = fresh.value;
  }
  prepare();
  const list = document.querySelector(".parameters");
  if (list) list.scrollTop = scrolled;
  if (part && document.activeElement === document.body) {
    places.map((each) => document.querySelector(each)).find(Boolean)?.focus({ preventScroll: true });
  }
}

/** Return selectors that find an element again after its part was replaced, the best first. */
function placesOf(element, part) {
  const whole = `[data-part="${CSS.escape(part)}"]`;
  const equal = (name) => `[${name}="${CSS.escape(element.getAttribute(name))}"]`;
  const found = [];
  if (element.id) found.push(`#${CSS.escape(element.id)}`);
  if (element.name && element.value) found.push(`${equal("name")}[value="${CSS.escape(element.value)}"]`);
  if (element.dataset.key) found.push(equal("data-key"));
  const row = element.closest("tr[data-line]");
  if (row) {
    const column = element.closest("th, td").cellIndex + 1;
    found.push(`tr[data-line="${CSS.escape(row.dataset.line)}"] > :nth-child(${column}) :is(a, button)`);
  }
  if (element.hasAttribute("aria-label")) found.push(`${whole} ${equal("aria-label")}`);
  return [...found, ...(part === "panel" && opener ? [opener] : []), `${whole} a`, `${whole} button`, "#plot"];
}

/** Scroll to a point that was opened from a list, and focus it for the keyboard. */
function present() {
  const active = document.activeElement;
  const part = active?.closest('[data-part="table"], [data-part="happened"]')?.dataset.part;
  if (!part) return;
  opener = placesOf(active, part)[0];
  const panel = document.querySelector(".panel");
  panel.querySelector("h2").focus({ preventScroll: true });
  panel.scrollIntoView({ block: "nearest" });
}

function prepare() {
  localTimes();
  // Only aggregates of several traces have a line for each value.
  document.querySelector("#by").disabled = !AGGREGATES.includes(document.querySelector("#show").value);
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    sortable(table, sorted, (order) => { sorted = order; });
  }
  for (const each of document.querySelectorAll("details[data-name]")) {
    each.open = opened.get(each.dataset.name) ?? each.open;
  }
}

async function drawn(model) {
  shown = model;
  readout.textContent = model.lines.length ? HINT : "";
  tip(null);
  if (!model.lines.length) {
    clear(document.querySelector("#plot"));
    whole.hidden = true;
    return;
  }
  await draw(document.querySelector("#plot"), model, {
    pointed: (text) => { readout.textContent = text || HINT; },
    tip,
    whole: (is) => { whole.hidden = is; },
    zoomed: (pairs) => {
      const address = new URL(location.href);
      for (const name of ["x", "y"]) address.searchParams.delete(name);
      for (const [name, value] of pairs) address.searchParams.append(name, value);
      // At once, so that Back returns to this view even if the links are not there yet.
      history.replaceState(null, "", address);
      show(address.pathname + address.search, { push: false });
    },
    chosen: (line, point, compared) => {
      const address = new URL(location.href);
      const column = model.points[point].column;
      const other = compared && model.looked ? model.looked.column : null;
      address.searchParams.set("at", column);
      address.searchParams.set("of", line.id);
      if (other !== null && other !== column) address.searchParams.set("since", other);
      show(address.pathname + address.search);
    },
  });
}

/** Show the description next to a point; null: hide it. */
function tip(place, value = "", label = "") {
  const box = document.querySelector("#tip");
  box.hidden = !place;
  if (!place) return;
  box.replaceChildren(Object.assign(document.createElement("b"), { textContent: value }), ` ${label}`);
  box.classList.toggle("left", place.isRight);
  box.style.left = `${place.left}px`;
  box.style.top = `${place.top}px`;
}

whole.addEventListener("click", () => unzoom(document.querySelector("#plot"), shown));

let waiting;
form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  const typed = event.target.matches("textarea, input[type=search]");
  if (event.target.matches("#formula, #queries")) return;
  delete event.target.dataset.written;
  waiting = setTimeout(() => show(chosen(), { replace: typed, typedField: typed ? event.target.id : null }), typed ? TYPING_MS : 0);
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  show(chosen()).then(pointOut);
});

/** Put the cursor at the error of a formula. */
function pointOut() {
  const wrong = document.querySelector('[data-part="mistakes-id"] [data-position]');
  const field = document.querySelector("#formula");
  if (!wrong || !field.value) return;
  field.focus();
  field.setSelectionRange(Number(wrong.dataset.position), field.value.length);
}

form.addEventListener("change", (event) => {
  // Another testbed has other times, and another kind of plot has other values.
  const old = { testbed: "[name=tile], [name=x], [name=y]", show: "[name=y]", by: "[name=y]" }[event.target.id];
  if (old) form.querySelectorAll(old).forEach((each) => each.remove());
  // Values with a checkbox are checked there; the text has only the other conditions.
  if (event.target.dataset.written !== undefined) {
    event.target.value = event.target.dataset.written;
    delete event.target.dataset.written;
  }
}, true);

document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details[data-name]")) opened.set(event.target.dataset.name, event.target.open);
}, true);

form.addEventListener("keydown", (event) => {
  // With Shift it is a new line.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("textarea")) return;
  event.preventDefault();
  form.requestSubmit();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-live]");
  if (link && event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) {
    event.preventDefault();
    show(link.getAttribute("href"));
  }
  const formula = event.target.closest("[data-formula]");
  if (formula) correct(formula);
  const button = event.target.closest("[data-copy]");
  if (button) copy(document.getElementById(button.dataset.copy), button);
});

document.addEventListener("keydown", (event) => {
  // Some keyboards have brackets on a third level only, which some systems report as Ctrl and Alt.
  if ((event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph")) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
  const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
  if (!link) return;
  event.preventDefault();
  show(link.getAttribute("href"));
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "look" || event.submitter?.name === "format") return;
  event.preventDefault();
  show(`${location.pathname}?${new URLSearchParams(new FormData(event.target, event.submitter))}`);
});

document.addEventListener("submit", async (event) => {
  const kind = event.target.dataset.save;
  if (!kind) return;
  event.preventDefault();
  const fields = new FormData(event.target);
  const body = kind === "short" ? { url: fields.get("url") } : { ids: fields.get("ids").split("\n") };
  const output = document.querySelector("#saved");
  try {
    const saved = await sendJson(event.target.action, body);
    if (kind === "shortcut") await show(saved.url);
    showSaved(kind === "short" ? new URL(saved.url, location.href).href : `shortcut("${saved.id}")`);
  } catch (error) {
    output.textContent = error.message;
  }
});

/** Move a formula from the plot back into its field. */
function correct(button) {
  const field = document.querySelector("#formula");
  for (const each of form.querySelectorAll("input[name=id]")) {
    if (each.value === `@${button.dataset.formula}`) each.remove();
  }
  field.value = button.dataset.formula;
  field.focus();
}

/** Show an address or an expression in a field, selected for copying. */
function showSaved(text) {
  const field = Object.assign(document.createElement("input"), { readOnly: true, value: text, size: text.length });
  field.setAttribute("aria-label", "Saved as");
  document.querySelector("#saved").replaceChildren(field);
  field.select();
}

async function copy(field, button) {
  field.select();
  await navigator.clipboard?.writeText(field.value).catch(() => {});
  const label = button.textContent;
  button.textContent = "Copied";
  announce("Copied");
  setTimeout(() => { button.textContent = label; }, 1500);
}

for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const row = event.target.closest?.("tr[data-line]");
    highlight(document.querySelector("#plot"), shown, row?.dataset.line ?? null);
  });
}

addEventListener("popstate", () => {
  // A link within the page shows nothing else.
  const address = location.pathname + location.search;
  if (address !== addressShown) show(address, { push: false });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && drawn(shown));

const narrow = matchMedia("(max-width: 52rem)");
/** In a narrow window the plot comes first, as soon as there is one; in a wide one all stands open. */
function fold() {
  document.querySelector("#chooser").open = !(narrow.matches && shown?.lines.length);
}
narrow.addEventListener("change", fold);

prepare();
shown = plotOf(document);
fold();
drawn(shown).catch((error) => { readout.textContent = error.message; });
