/** Shows the progress of a clustering; without this script the page loads itself again. */
import { fetchJson } from "./base.js";

const POLL_MS = 1000;
const line = document.querySelector("#state");

async function look() {
  let now;
  try {
    now = await fetchJson(location.href);
  } catch {
    // The dashboard restarts or is busy.
    return setTimeout(look, 5 * POLL_MS);
  }
  if (!now.under_way) return location.reload();
  line.textContent = now.state === "asked" ? "Waiting." : `Running: ${now.stage}.`;
  return setTimeout(look, POLL_MS);
}

if (["asked", "running"].includes(line.dataset.state)) setTimeout(look, POLL_MS);
