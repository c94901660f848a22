/** Triage without leaving the page, and by keys. Without this script the forms do the same. */
import { announce, sendJson, shownMoment } from "./base.js";

const rows = [...document.querySelectorAll("tr.item")];
const bulk = document.querySelector("#bulk");
const boxes = [...document.querySelectorAll("tr.item input[type=checkbox]")];
const mayEdit = boxes.length > 0;
const undoForm = document.querySelector("[data-undo]");
const problem = document.querySelector("[data-problem]");
const help = document.querySelector("#help");
const { message, owner, until } = bulk?.elements ?? {};
const WORDS = {
  ignored: "ignored", bug: "marked as a bug", closed: "closed", new: "marked as new", assign: "assigned", snooze: "snoozed",
  merge: "merged",
};
/** The fields of the edits that have one: the edit is made by Enter in it, or by its button. */
const FIELDS = { bug: message, assign: owner, snooze: until };

/** The edits made on this page, the newest last: lists of rows, for undo. */
const done = [];
/** The rows that the field being written is for; null: none. */
let fieldRows = null;

function count(status, by) {
  const open = ["new", "bug"].includes(status) ? ["open"] : [];
  for (const name of [status, ...open]) {
    const place = document.querySelector(`[data-count="${name}"]`);
    if (place) place.textContent = Number(place.textContent) + by;
  }
}

function snoozedUntil({ snooze }) {
  if (!snooze) return "";
  return `until ${snooze.until ? shownMoment(new Date(snooze.until)) : `${snooze.job}/${snooze.build}`}`;
}

/** Show an item as it is now. */
function show(item) {
  const row = document.querySelector(`#item-${item.id}`);
  if (!row) return;
  const status = row.querySelector("[data-status]");
  count(status.textContent, -1);
  count(item.status, 1);
  status.textContent = item.status;
  status.className = `status ${item.status}`;
  row.querySelector("[data-reason]").textContent = item.reason || item.message;
  row.querySelector("[data-snooze]").textContent = snoozedUntil(item);
  const traces = row.querySelector("[data-traces]");
  if (traces) traces.textContent = item.traces;
  row.querySelector("[data-owner]").textContent = item.owner || "–";
  row.dataset.version = item.version;
  row.querySelector("input[type=checkbox]").value = item.version;
}

function showProblem(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

function offerUndo(text) {
  undoForm.hidden = done.length === 0;
  undoForm.querySelector("[data-undo-text]").textContent = text;
}

function versions(wanted) {
  return Object.fromEntries(wanted.map((row) => [row.dataset.id, Number(row.dataset.version)]));
}

async function send(url, body) {
  showProblem("");
  try {
    return (await sendJson(url, body)).items;
  } catch (error) {
    (error.body?.items ?? []).forEach(show);
    showProblem(`${error.message}${error.status === 409 ? "; the list shows the current state" : ""}`);
    return null;
  }
}

function choose(row, on) {
  const box = row.querySelector("input[type=checkbox]");
  box.checked = on && !box.disabled;
  row.classList.toggle("chosen", box.checked);
  showChosen();
}

function chosen() {
  return boxes.filter((box) => box.checked).map((box) => box.closest("tr"));
}

function showChosen() {
  bulk.querySelector("[data-chosen]").textContent = chosen().length || "Selected";
}

/** The address and the body of an edit, without the items: of a status, or one that has a field. */
function request(name) {
  const text = message.value.trim();
  const said = text ? { message: text } : {};
  if (name === "merge") return ["/triage/merge", {}];
  if (name === "assign") return ["/triage/assign", { owner: owner.value }];
  if (name === "snooze") return ["/triage/snooze", { until: until.value, ...said }];
  return ["/triage", { status: name, ...said }];
}

/** Edit items. If another user was faster, show the current state and change nothing. */
async function edit(wanted, name) {
  if (!wanted.length) return showProblem("Select an item first.");
  const [url, body] = request(name);
  const items = await send(url, { items: versions(wanted), ...body });
  if (!items) return undefined;
  items.forEach(show);
  done.push(wanted);
  wanted.forEach((row) => {
    row.classList.add("just-edited");
    choose(row, false);
  });
  message.value = until.value = "";
  const what = `${items.length} item${items.length === 1 ? "" : "s"} ${WORDS[name]}.`;
  offerUndo(what);
  announce(what);
  const next = rows[rows.indexOf(wanted.at(-1)) + 1];
  (next ?? wanted.at(-1)).focus();
  return undefined;
}

async function undo() {
  const last = done.pop();
  if (!last) return undoForm.hidden ? showProblem("There is nothing to undo.") : undoForm.submit();
  const items = await send("/triage/undo", { items: versions(last) });
  if (!items) return done.push(last);
  items.forEach(show);
  last.forEach((row) => row.classList.remove("just-edited"));
  offerUndo(`${items.length} item${items.length === 1 ? "" : "s"} restored.`);
  announce("Undone.");
  return last[0].focus();
}

function focused() {
  return rows.find((row) => row.contains(document.activeElement));
}

function move(by) {
  const now = rows.indexOf(focused());
  const next = rows[now < 0 ? 0 : Math.min(Math.max(now + by, 0), rows.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function about() {
  const several = chosen();
  return several.length ? several : [focused()].filter(Boolean);
}

/** Let the user write the field of an edit. */
function write(name) {
  fieldRows = about();
  if (!fieldRows.length) return showProblem("Select an item first.");
  FIELDS[name].focus();
  return FIELDS[name].select();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  "?": () => help.showModal(),
  Enter: () => focused()?.querySelector("a.open").click(),
};
const EDITING_KEYS = {
  x: () => focused() && choose(focused(), !focused().querySelector("input").checked),
  i: () => edit(about(), "ignored"),
  c: () => edit(about(), "closed"),
  b: () => write("bug"),
  s: () => write("snooze"),
  a: () => write("assign"),
  m: () => edit(about(), "merge"),
  u: undo,
};

document.addEventListener("keydown", (event) => {
  if (help?.open || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  const written = mayEdit && Object.keys(FIELDS).find((name) => event.target === FIELDS[name]);
  if (written) {
    if (event.key === "Escape") fieldRows?.[0]?.focus();
    if (event.key === "Enter") {
      event.preventDefault();
      edit(fieldRows?.length ? fieldRows : about(), written);
      fieldRows = null;
    }
    return;
  }
  if (typing || (event.key === "Enter" && event.target.closest("a, button, input"))) return;
  const act = KEYS[event.key] ?? (mayEdit ? EDITING_KEYS[event.key] : undefined);
  if (!act || !rows.length) return;
  event.preventDefault();
  act();
});

document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
if (mayEdit) {
  bulk.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = event.submitter?.dataset.edit ?? event.submitter?.value;
    if (name) edit(fieldRows?.length ? fieldRows : chosen(), name);
    fieldRows = null;
  });
  bulk.addEventListener("change", (event) => {
    if (event.target.matches("input[type=checkbox]")) choose(event.target.closest("tr"), event.target.checked);
  });
  undoForm.addEventListener("submit", (event) => {
    if (!done.length) return;
    event.preventDefault();
    undo();
  });
  boxes.filter((box) => box.checked).forEach((box) => choose(box.closest("tr"), true));
}
