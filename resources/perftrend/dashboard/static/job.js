/** The page of a job: show its new state without a reload by hand. Without this script, reload the page. */

const INTERVAL_MS = 10_000;
const page = document.querySelector("[data-active]");

async function read() {
  const answer = await fetch(location.pathname, { headers: { Accept: "application/json" } });
  return answer.ok ? JSON.stringify(await answer.json()) : null;
}

/** Reload the page as soon as the job is in another state. */
async function watch() {
  const shown = await read();
  setInterval(async () => {
    const now = await read().catch(() => null);
    if (now && shown && now !== shown) location.reload();
  }, INTERVAL_MS);
}

if (page) watch();
