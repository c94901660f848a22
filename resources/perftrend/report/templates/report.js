// Interactive graphs: drawn when a test is opened, with plotly and data that load only then.
"use strict";

const perftrend = (() => {
  const TESTS_PER_FILE = Number(document.querySelector(".tests")?.dataset.testsPerFile);
  const SIGMAS = 3;
  const LEAST_SPAN = 0.04;
  const tests = new Map();
  const loading = new Map();
  let runs = [];

  function load(source) {
    if (!loading.has(source)) {
      loading.set(source, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = source;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${source} cannot be loaded`));
        document.head.append(script);
      }));
    }
    return loading.get(source);
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function translucent(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
  }

  // plotly reads some HTML in its texts; names and versions are no HTML.
  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const shortened = (text) => (/^[0-9a-f]{20,}$/i.test(text) ? text.slice(0, 12) : text);

  function readable(value, unit) {
    return unit === "Mpps" ? `${value.toFixed(5)} Mpps` : `${Number(value.toPrecision(6))} ${unit}`;
  }

  function aboutRun(run) {
    const lines = [`<b>${escaped(run.name)}</b>`, escaped(run.started.slice(0, 16).replace("T", " ")) + " UTC"];
    for (const [name, version] of Object.entries(run.versions)) {
      lines.push(`${escaped(name)} ${escaped(shortened(version))}`);
    }
    if (run.simulated) lines.push("SIMULATED");
    return lines.join("<br>");
  }

  // A closed outline for each stretch that has a band; plotly fills no shape across a gap.
  function outline(test) {
    const x = [], y = [];
    let stretch = [];
    const close = () => {
      if (stretch.length) {
        const back = [...stretch].reverse();
        x.push(...stretch.map((p) => p.x), ...back.map((p) => p.x), null);
        y.push(...stretch.map((p) => p.high), ...back.map((p) => p.low), null);
      }
      stretch = [];
    };
    test.average.forEach((average, position) => {
      const deviation = test.deviation[position];
      if (average === null || deviation === null) {
        close();
      } else {
        stretch.push({ x: position + 1, high: average + SIGMAS * deviation, low: average - SIGMAS * deviation });
      }
    });
    close();
    return { x, y };
  }

  function scaled(raw) {
    const factor = raw.unit === "pps" ? 1e-6 : 1;
    const scale = (value) => (value === null ? null : value * factor);
    return {
      unit: raw.unit === "pps" ? "Mpps" : raw.unit,
      runs: raw.runs.map((index) => runs[index]),
      values: raw.values.map(scale),
      notValid: raw.not_valid.map((entry) => ({ ...entry, value: scale(entry.value) })),
      median: raw.moving_median.map(scale),
      average: raw.trimmed_average.map(scale),
      deviation: raw.trimmed_deviation.map(scale),
      outliers: new Set(raw.outliers),
      suspected: new Set(raw.suspected_runs),
      groups: raw.groups.map((group) => ({ ...group, mean: scale(group.mean), stdev: scale(group.stdev) })),
      changes: raw.changes.map((change) => ({ ...change, before: scale(change.before), after: scale(change.after) })),
    };
  }

  function pointsAt(test, positions, { name, marker, valueAt, note }) {
    return {
      name, marker, type: "scatter", mode: "markers", hoverinfo: "text",
      x: positions.map((position) => position + 1),
      y: positions.map(valueAt),
      text: positions.map((position) => [
        `<b>${readable(valueAt(position), test.unit)}</b> ${escaped(note(position))}`,
        aboutRun(test.runs[position]),
      ].join("<br>")),
    };
  }

  function curves(test) {
    const numbers = test.values.map((_, position) => position + 1);
    const groups = { x: [], y: [], text: [] };
    for (const group of test.groups) {
      const about = `trend ${readable(group.mean, test.unit)}<br>${group.stop - group.start} runs, ` +
        `deviation ${readable(group.stdev, test.unit)}`;
      groups.x.push(group.start + 0.6, group.stop + 0.4, null);
      groups.y.push(group.mean, group.mean, null);
      groups.text.push(about, about, "");
    }
    const hasValues = (trace) => trace.y.some((value) => value !== null);
    const line = { type: "scatter", mode: "lines", hoverinfo: "skip", connectgaps: false };
    return [
      { ...line, ...outline(test), name: "TMA ± 3 TMSD", fill: "toself", fillcolor: translucent(colour("band"), 0.16), line: { width: 0 } },
      { ...line, x: numbers, y: test.average, name: "TMA", line: { color: colour("band"), width: 1, dash: "dot" } },
      { ...line, x: numbers, y: test.median, name: "MM", line: { color: colour("median"), width: 2 } },
      { ...line, ...groups, name: "trend", hoverinfo: "text", line: { color: colour("trend"), width: 3 } },
    ].filter(hasValues);
  }

  function points(test, width) {
    const shrink = width < 600 ? 0.7 : 1;
    const changed = new Map(test.changes.map((change) => [change.position, change]));
    const has = (position) => test.values[position] !== null;
    const all = [...test.values.keys()].filter((position) => has(position) && !changed.has(position));
    const valueAt = (position) => test.values[position] ?? changed.get(position)?.after;
    const begins = (direction) => test.changes.filter((change) => change.direction === direction).map((change) => change.position);
    const note = (position) => {
      const change = changed.get(position);
      if (!change) return [...(test.suspected.has(position) ? ["suspected"] : []), ...(test.outliers.has(position) ? ["outlier"] : [])].join(", ");
      const relative = change.relative === null ? "" : ` of ${(100 * change.relative).toFixed(1)} %`;
      return `${change.direction}${relative}`;
    };
    const untrusted = new Map(test.notValid.filter((entry) => entry.value !== null).map((entry) => [entry.position, entry]));
    const pick = (name, positions, marker) =>
      pointsAt(test, positions, { name, marker: { ...marker, size: marker.size * shrink }, valueAt, note });
    return [
      pick("measured", all.filter((position) => !test.outliers.has(position)), { color: colour("values"), size: 6 }),
      pick("outlier", all.filter((position) => test.outliers.has(position)), { color: colour("values"), size: 8, symbol: "x-thin-open", line: { width: 2 } }),
      pointsAt(test, [...untrusted.keys()], {
        name: "not valid", marker: { color: colour("quiet"), size: 9, symbol: "circle-open", line: { width: 2 } },
        valueAt: (position) => untrusted.get(position).value,
        note: (position) => `not valid: ${untrusted.get(position).reason}`,
      }),
      pick("suspected", all.filter((position) => test.suspected.has(position)), { color: colour("doubt"), size: 13, symbol: "circle-open", line: { width: 2 } }),
      pick("regression", begins("regression"), { color: colour("worse"), size: 15 }),
      pick("progression", begins("progression"), { color: colour("better"), size: 12, symbol: "circle-open", line: { width: 4 } }),
    ].filter((trace) => trace.x.length);
  }

  function ticks(test, most) {
    const count = Math.min(most, test.runs.length);
    const at = [...Array(count).keys()].map((tick) => Math.round((tick * (test.runs.length - 1)) / Math.max(1, count - 1)));
    return {
      tickvals: at.map((position) => position + 1),
      ticktext: at.map((position) => {
        const run = test.runs[position];
        return [run.build, ...(run.commit ? [escaped(run.commit.slice(0, 8))] : []), run.started.slice(0, 10)].join("<br>");
      }),
    };
  }

  // A few equal values would otherwise get an axis from minus to plus one; small noise stays small.
  function heights(test) {
    const margin = test.deviation.map((deviation) => SIGMAS * (deviation ?? 0));
    const shown = [
      ...test.values, ...test.notValid.map((entry) => entry.value), ...test.groups.map((group) => group.mean),
      ...test.average.flatMap((average, position) => (average === null ? [] : [average - margin[position], average + margin[position]])),
    ].filter((value) => value !== null);
    if (!shown.length) return {};
    const low = shown.reduce((one, other) => Math.min(one, other));
    const high = shown.reduce((one, other) => Math.max(one, other));
    const middle = (low + high) / 2;
    const half = Math.max((high - low) / 2, Math.abs(middle) * LEAST_SPAN / 2) || 1;
    return { range: [middle - 1.1 * half, middle + 1.1 * half] };
  }

  function layout(test, width) {
    const narrow = width < 600;
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, fixedrange: false };
    const simulated = test.runs.some((run) => run.simulated);
    return {
      autosize: true,
      margin: narrow ? { l: 44, r: 36, t: 12, b: 56 } : { l: 64, r: 40, t: 12, b: 64 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") },
      xaxis: { ...axis, ...ticks(test, narrow ? 3 : 6), tickangle: 0, range: [0, test.runs.length + 1] },
      yaxis: { ...axis, ...heights(test), title: { text: escaped(test.unit), standoff: narrow ? 4 : 12 }, exponentformat: "e" },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: narrow ? 11 : 12 } },
      hovermode: "closest",
      hoverlabel: { align: "left", bgcolor: colour("raised"), bordercolor: colour("quiet"), font: { color: colour("ink") } },
      annotations: simulated ? [{
        text: "SIMULATED", xref: "paper", yref: "paper", x: 0.5, y: 0.12, showarrow: false,
        font: { size: 48, color: translucent(colour("doubt"), 0.18) },
      }] : [],
    };
  }

  async function draw(figure) {
    const number = Number(figure.dataset.test);
    await Promise.all([load("plotly.min.js"), load("data/runs.js"), load(`data/${Math.floor(number / TESTS_PER_FILE)}.js`)]);
    const test = scaled(tests.get(number));
    let plot = figure.querySelector(".plot");
    if (!plot) {
      plot = document.createElement("div");
      plot.className = "plot";
      figure.prepend(plot);
    }
    figure.classList.add("drawn");
    const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
    const width = plot.clientWidth;
    await Plotly.react(plot, [...curves(test), ...points(test, width)], layout(test, width), options);
  }

  // A background does not show what is pointed at; a document in its place does.
  function revive(figure) {
    const link = figure.querySelector("a");
    const picture = document.createElement("object");
    picture.type = "image/svg+xml";
    picture.data = link.getAttribute("href");
    picture.setAttribute("aria-label", link.getAttribute("aria-label"));
    link.replaceWith(picture);
  }

  function opened(details) {
    const more = details.closest(".row")?.closest(".test");
    const figure = more?.querySelector(".graph");
    if (details.open) more?.querySelectorAll(".search-graph:has(a)").forEach(revive);
    // Where a file is missing the static picture stays, which shows the same.
    if (details.open && figure && !figure.classList.contains("drawn")) draw(figure).catch((error) => console.warn(error.message));
  }

  function openTarget() {
    const details = document.getElementById(location.hash.slice(1))?.querySelector("details");
    if (details) details.open = true;
  }

  function find(words) {
    let matches = 0;
    for (const test of document.querySelectorAll(".test")) {
      const text = test.rows[0].textContent.toLowerCase();
      const matched = words.every((word) => text.includes(word));
      test.classList.toggle("unmatched", !matched);
      matches += matched;
    }
    document.querySelector(".none").hidden = matches > 0;
  }

  document.documentElement.classList.add("scripted");
  document.addEventListener("toggle", (event) => opened(event.target), true);
  document.addEventListener("click", (event) => {
    const details = event.target.closest(".small")?.closest(".test").querySelector("details");
    if (details) details.open = !details.open;
  });
  addEventListener("hashchange", openTarget);
  openTarget();
  document.getElementById("find")?.addEventListener("input", (event) => {
    find(event.target.value.toLowerCase().split(/\s+/).filter(Boolean));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const figure of document.querySelectorAll(".graph.drawn")) draw(figure);
  });

  return {
    receiveRuns(all) { runs = all; },
    receiveTests(first, some) { some.forEach((test, index) => tests.set(first + index, test)); },
  };
})();
