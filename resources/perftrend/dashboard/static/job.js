/** The page of a job: show its new state without a reload by hand. Without this script, reload the page. */

const INTERVAL_MS = 10_000;
const page = document.querySelector("[data-active]");

/** Reload the page as soon as the job is in another state than the page shows. */
async function check() {
  const answer = await fetch(location.pathname, { headers: { Accept: "application/json" } });
  if (answer.ok && (await answer.text()) !== page.dataset.active) location.reload();
}

// If the server does not answer, the next check follows.
if (page) setInterval(() => check().catch(() => {}), INTERVAL_MS);
