/** Shared by all pages: times in the reader's zone, requests, and announcements. */

const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** Show the times below an element in the reader's zone; pages call it for elements that they add later. */
export function localTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    time.title = `${WHOLE.format(moment)}, ${time.textContent.trim()}`;
    time.textContent = shownMoment(moment);
  }
}

/** Format a time in the reader's zone, in an order that is not ambiguous: 2026-03-01 02:00. */
export function shownMoment(moment) {
  const two = (number) => String(number).padStart(2, "0");
  const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

/**
 * Fetch the model of a page: the same URL as JSON.
 * @throws {Error} with the message of the dashboard; its body is the whole response.
 */
export async function fetchJson(url, options = {}) {
  const answer = await fetch(url, {
    ...options,
    headers: { Accept: "application/json", ...(options.headers ?? {}) },
  });
  if (answer.status === 204) return null;
  const body = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw Object.assign(new Error(body.error), { status: answer.status, body });
  return body;
}

/** Return the token that a change has to carry, of a page with any form. */
export function csrfToken() {
  return document.querySelector("input[name=csrf]")?.value ?? "";
}

/** Send a change as JSON; the same result and errors as fetchJson. */
export function sendJson(url, body, method = "POST") {
  return fetchJson(url, {
    method,
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrfToken() },
  });
}

/** Load plotly once, from the address that the page names in <link rel="plotly" href="…">. */
let plotly;
export function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.querySelector("link[rel=plotly]").href;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly could not be loaded"));
    document.head.append(script);
  });
  return plotly;
}

/** Announce a change of the page to screen readers. */
export function announce(text) {
  let region = document.querySelector("#announced");
  if (!region) {
    region = Object.assign(document.createElement("div"), { id: "announced", className: "hidden-text" });
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = text;
}

/** The key / searches, unless a text is being written. */
document.addEventListener("keydown", (event) => {
  const isWriting = event.target.closest?.("input:not([type=checkbox], [type=radio]), select, textarea, dialog");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isWriting) return;
  const field = document.querySelector("[data-search]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});

document.documentElement.classList.add("scripted");
localTimes();
