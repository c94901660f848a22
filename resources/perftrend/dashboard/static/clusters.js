/** Triage without leaving the page, and by keys. Without this script the forms do the same. */
import { announce, localTimes, sendJson } from "./base.js";

const items = [...document.querySelectorAll(".cluster[data-id]")];
const list = document.querySelector("ol.clusters");
const bulk = document.querySelector("#bulk");
const boxes = [...document.querySelectorAll("input[form=bulk]")];
const MONTHS = new Intl.DateTimeFormat("sv", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZone: "UTC",
});

function showProblem(item, problem) {
  let line = item.querySelector(".problem");
  if (!line) {
    line = Object.assign(document.createElement("p"), { className: "problem" });
    line.setAttribute("role", "alert");
    item.append(line);
  }
  line.textContent = problem;
}

/**
 * Show the current state of a cluster.
 * @param preserveInput is whether text that the user is typing remains, and the message about it.
 */
function show(cluster, { preserveInput = false } = {}) {
  const item = document.querySelector(`[data-id="${cluster.id}"]`);
  if (!item) return;
  const status = item.querySelector("[data-status]");
  count(status.textContent, -1);
  count(cluster.status, 1);
  status.textContent = cluster.status;
  status.className = `status ${cluster.status.toLowerCase()}`;
  item.querySelector("[data-message]").textContent = cluster.message;
  const by = item.querySelector("[data-by]");
  by.textContent = "";
  if (cluster.changed) {
    const time = document.createElement("time");
    time.dateTime = cluster.changed;
    time.textContent = `${MONTHS.format(new Date(cluster.changed))} UTC`;
    by.append(`${cluster.changed_by}, `, time);
    localTimes(by);
  }
  item.dataset.version = cluster.version;
  const form = item.querySelector("[data-triage]");
  if (form) {
    form.elements.version.value = cluster.version;
    if (!preserveInput) {
      form.elements.status.value = cluster.status;
      form.elements.message.value = cluster.message;
    }
  }
  const box = item.querySelector("input[form=bulk]");
  if (box) box.value = cluster.version;
  if (!preserveInput) item.querySelector(".problem")?.remove();
}

function count(status, by) {
  const place = document.querySelector(`[data-count="${status}"]`);
  if (place) place.textContent = Number(place.textContent) + by;
}

/** Triage clusters. If another user was faster, show the current state and change nothing. */
async function triage(wanted, status, message) {
  const clusters = Object.fromEntries(wanted.map((item) => [item.dataset.id, Number(item.dataset.version)]));
  try {
    const edited = await sendJson("/clusters/triage", { clusters, status, message });
    edited.clusters.forEach((cluster) => show(cluster));
    announce(`${edited.clusters.map((cluster) => `Cluster ${cluster.id}`).join(", ")}: ${status}`);
    return true;
  } catch (error) {
    (error.body?.clusters ?? []).forEach((cluster) => show(cluster, { preserveInput: true }));
    wanted.forEach((item) => showProblem(item, error.message));
    return false;
  }
}

function chosen() {
  return boxes.filter((box) => box.checked).map((box) => box.closest(".cluster"));
}

function showChosen() {
  const number = chosen().length;
  bulk.classList.toggle("some", number > 0);
  bulk.querySelector("[data-chosen]").textContent = number;
}

function choose(item, on) {
  const box = item.querySelector("input[form=bulk]");
  box.checked = on && !box.disabled;
  showChosen();
}

function move(by) {
  const now = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[Math.min(Math.max(now + by, 0), items.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

async function triageChosen(status, message) {
  const wanted = chosen();
  if (await triage(wanted, status, message)) wanted.forEach((item) => choose(item, false));
}

function act(key) {
  // On the page of one cluster, keys apply to it, wherever the focus is.
  const item = list ? items.find((each) => each.contains(document.activeElement)) : items[0];
  const several = bulk ? chosen() : [];
  const form = several.length ? bulk : item?.querySelector("[data-triage]");
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (key === "o" && item) return item.querySelector("h2 a")?.click();
  if (!form) return undefined;
  if (key === "x" && bulk && item) return choose(item, !item.querySelector("input[form=bulk]").checked);
  if (key === "b") {
    form.elements.status.value = "Bug";
    return form.elements.message.focus();
  }
  const status = { i: "Ignore", n: "New" }[key];
  if (several.length) return triageChosen(status, null);
  return triage([item], status, null);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing) return event.target.closest("li.cluster")?.focus();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !"jkibnxo".includes(event.key)) return undefined;
  event.preventDefault();
  return act(event.key);
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form === bulk && chosen().length) {
    event.preventDefault();
    await triageChosen(form.elements.status.value, form.elements.message.value || null);
  } else if (form.matches("[data-triage]") && form.closest("[data-id]")) {
    event.preventDefault();
    const item = form.closest("[data-id]");
    if (await triage([item], form.elements.status.value, form.elements.message.value)) item.focus();
  }
});

// Checkboxes that the browser restored after a reload count.
if (bulk) {
  document.addEventListener("change", (event) => event.target.matches("input[form=bulk]") && showChosen());
  showChosen();
}
