/** Shows further rounds of a per-patch test in progress; without this script the page loads itself again. */
import { fetchJson } from "./base.js";

const POLL_MS = 10_000;
const shown = Date.parse(document.querySelector("#in-progress").dataset.updated);

async function look() {
  let table;
  try {
    ({ table } = await fetchJson(location.href));
  } catch {
    // The dashboard restarts or is busy.
    return setTimeout(look, 5 * POLL_MS);
  }
  const isNew = !table.in_progress || Date.parse(table.updated) !== shown;
  // A reload would lose what is typed into the form.
  if (isNew && !document.activeElement.closest("form")) return location.reload();
  return setTimeout(look, POLL_MS);
}

setTimeout(look, POLL_MS);
