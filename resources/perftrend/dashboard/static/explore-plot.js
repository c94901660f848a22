/**
 * The plot: lines of points over commits, by plotly and WebGL; where a browser has none, by SVG. Of many lines the
 * density is drawn, with axes of our own.
 */

import { loadPlotly, shownMoment } from "./base.js";
import { clearAxes, drawAxes, selectable } from "./explore-axes.js";
import { nearest, paint, trace, wipe } from "./explore-dense.js";

const COLOURS = 10;
const DASHES = ["solid", "dot", "dash", "dashdot"];
const FEW = 12;
const MOST_TICKS = 7;
const LEAST_SPAN = 0.02;
const TEXT_PX = 90, TEXT_ROWS = 4, TEXT_HEIGHT_PX = 16;
const CLICK_PX = 4;
const WHOLE = { columns: null, values: {} };

let webgl;
function hasWebgl() {
  webgl ??= Boolean(document.createElement("canvas").getContext("webgl"));
  return webgl;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function translucent(hex, opacity) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
}

// plotly reads some HTML in its texts; names are no HTML.
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const numbers = (values) => Float64Array.from(values, (value) => value ?? NaN);

function readable(value, unit) {
  const digits = Math.abs(value) >= 1000 || value === 0 ? value.toFixed(1) : String(Number(value.toPrecision(6)));
  return `${digits} ${unit}`.trim();
}

function valueOf(line, place) {
  const value = line.values[place];
  return isMissing(value) ? "no value" : readable(value, line.unit);
}

const isMissing = (value) => value === null || Number.isNaN(value);

const moment = (point) => shownMoment(new Date(point.started));
const day = (point) => moment(point).slice(0, 10);
const short = (commit) => (commit ? commit.slice(0, 9) : "no commit");

/** The position of a point on the axis of columns. */
const middle = (point) => point.column + (point.columns - 1) / 2;

/** The description of the point under the pointer. */
function about(model, line, place) {
  const point = model.points[place];
  const parts = [valueOf(line, place), line.label, short(point.commit)];
  parts.push(moment(point));
  if (point.columns > 1) parts.push(`${point.columns} commits`);
  return parts.join("  ·  ");
}

/** A closed outline for each stretch that has both ends; plotly fills no shape across a gap. */
function outline(columns, low, high) {
  const x = [], y = [];
  let stretch = [];
  const close = () => {
    const back = [...stretch].reverse();
    x.push(...stretch.map((at) => columns[at]), ...back.map((at) => columns[at]), null);
    y.push(...stretch.map((at) => high[at]), ...back.map((at) => low[at]), null);
    stretch = [];
  };
  low.forEach((value, at) => {
    if (!Number.isNaN(value) && !Number.isNaN(high[at])) stretch.push(at);
    else if (stretch.length) close();
  });
  if (stretch.length) close();
  return { x, y };
}

/** The axes by unit: the most frequent unit at the left, the next at the right. */
function axesOf(model) {
  return new Map(model.units.slice(0, 2).map((unit, place) => [unit, place === 0 ? "y" : "y2"]));
}

function curves(model, type) {
  const columns = Float64Array.from(model.points, middle);
  const axes = axesOf(model);
  const few = model.lines.length <= FEW;
  const found = [];
  model.lines.forEach((line, place) => {
    if (!axes.has(line.unit)) return;
    const hue = colour(`c${place % COLOURS}`);
    if (line.low) {
      found.push({
        ...outline(columns, numbers(line.low), numbers(line.high)), type: "scatter", mode: "lines",
        fill: "toself", fillcolor: translucent(hue, 0.14), line: { width: 0 }, hoverinfo: "skip",
        yaxis: axes.get(line.unit), showlegend: false,
      });
    }
    found.push({
      x: columns, y: numbers(line.values), type, mode: "lines+markers", name: escaped(line.label),
      line: { color: translucent(hue, few ? 0.85 : 0.6), width: few ? 1.5 : 1, dash: DASHES[Math.floor(place / COLOURS) % DASHES.length] },
      marker: { color: hue, size: few ? 5 : 3.5 }, hoverinfo: "none", meta: { place },
      yaxis: axes.get(line.unit), showlegend: false,
    });
  });
  return [...found, ...steps(model, columns, axes, type), ...looked(model, columns, axes, type)];
}

/** The value at a change. If there is none, the level after it; that of a calculated line is not known. */
function valueAt(model, line, change) {
  const value = line.values[change.point];
  return isMissing(value) ? (line.id.startsWith(",") ? change.after : NaN) : value;
}

/** Where lines have changed: a triangle that points the way the news goes; hollow where it is only suspected. */
function steps(model, columns, axes, type) {
  const kinds = [
    ["suspected", "doubt", model.suspected],
    ["regression", "worse", model.changes.filter((each) => each.direction === "regression")],
    ["progression", "better", model.changes.filter((each) => each.direction === "progression")],
  ];
  const places = new Map(model.lines.map((line, place) => [line.id, place]));
  return kinds.flatMap(([name, hue, chosen]) => [...new Set(axes.values())].flatMap((axis) => {
    const on = chosen.filter((each) => axes.get(model.lines[places.get(each.trace)].unit) === axis);
    if (!on.length) return [];
    const open = name === "suspected" ? "-open" : "";
    return [{
      x: on.map((each) => columns[each.point]),
      y: on.map((each) => valueAt(model, model.lines[places.get(each.trace)], each)),
      type, mode: "markers", yaxis: axis, name, showlegend: false, hoverinfo: "none",
      marker: {
        symbol: on.map((each) => `triangle-${each.after > each.before ? "up" : "down"}${open}`), size: 14,
        color: colour(hue), line: { color: colour(open ? hue : "paper"), width: 1.5 },
      },
      meta: { changes: on.map((each) => ({ ...each, place: places.get(each.trace), name })) },
    }];
  }));
}

/** The point that is looked at, as a ring. */
function looked(model, columns, axes, type) {
  const place = model.lines.findIndex((line) => line.id === model.looked?.trace);
  const at = model.points.findIndex((point) => point.column === model.looked?.column);
  if (place < 0 || at < 0 || !axes.has(model.lines[place].unit)) return [];
  const line = model.lines[place];
  return [{
    x: [columns[at]], y: [line.values[at] ?? NaN], type, mode: "markers",
    yaxis: axes.get(line.unit), hoverinfo: "skip", showlegend: false,
    marker: { symbol: "circle-open", size: 14, color: colour("ink"), line: { width: 2 } },
  }];
}

function ticks(model, width) {
  const most = Math.max(1, Math.min(MOST_TICKS, Math.floor(width / 130), model.points.length));
  // In the middle of equal parts, so that no text is cut off at the ends.
  return [...Array(most).keys()].map((tick) => {
    const point = model.points[Math.floor(((tick + 0.5) * model.points.length) / most)];
    return { column: middle(point), lines: [day(point), short(point.commit)] };
  });
}

/** The least and the greatest value of each unit, found once for each model. */
const extremes = new WeakMap();
function extremesOf(model, unit) {
  if (!extremes.has(model)) {
    const found = new Map();
    for (const line of model.lines) {
      let [low, high] = found.get(line.unit) ?? [Infinity, -Infinity];
      for (const values of model.isDense ? [line.values] : [line.values, line.low ?? [], line.high ?? []]) {
        for (const value of values) {
          if (value === null) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
      found.set(line.unit, [low, high]);
    }
    extremes.set(model, found);
  }
  return extremes.get(model).get(unit) ?? [Infinity, -Infinity];
}

/** Small noise stays small: an axis never shows less than two percent of what is measured. */
function heights(model, unit) {
  const [low, high] = extremesOf(model, unit);
  if (low > high) return {};
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, (Math.abs(middle) * LEAST_SPAN) / 2) || 1;
  return { range: [middle - 1.08 * half, middle + 1.08 * half] };
}

function layout(model, plot, zoom = model.zoom) {
  const width = plot.clientWidth, narrow = width < 600;
  const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false };
  const units = [...axesOf(model).keys()];
  const first = model.points[0], last = model.points.at(-1);
  const span = last.column + last.columns - first.column;
  const [left, right = left] = units;
  const value = (unit, more) => ({
    ...axis, ...(Object.hasOwn(zoom.values, unit) ? { range: zoom.values[unit] } : heights(model, unit)), tickformat: "~r", title: { text: escaped(unit || model.numbers), standoff: 8 }, ...more,
  });
  const below = ticks(model, width), range = compared(model);
  return {
    autosize: true,
    margin: { l: narrow ? 44 : 62, r: units.length > 1 ? (narrow ? 44 : 62) : 14, t: 14, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") },
    xaxis: { ...axis, tickvals: below.map(({ column }) => column), ticktext: below.map(({ lines }) => lines.map(escaped).join("<br>")), tickangle: 0, range: zoom.columns ?? [first.column - 0.02 * span - 0.5, first.column + 1.02 * span - 0.5], showgrid: false },
    yaxis: value(left, {}),
    ...(units.length > 1 ? { yaxis2: value(right, { overlaying: "y", side: "right", showgrid: false, tickmode: "auto" }) } : {}),
    // A finger that drags scrolls the page.
    hovermode: "closest", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", showlegend: false,
    shapes: [...(range ? [rectangle(range)] : []), ...verticals(model).map(shape)], annotations: [...texts(model, width).map(annotation), ...simulated(model)],
  };
}

/** The range between the points that are compared, as its two columns; null if none are. */
function compared(model) {
  const found = verticals(model).filter(({ kind }) => kind === "looked" || kind === "since").map(({ column }) => column);
  return found.length < 2 ? null : found.sort((one, other) => one - other);
}

function rectangle([x0, x1]) {
  return {
    type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
    line: { width: 0 }, fillcolor: translucent(colour("doubt"), 0.16),
  };
}

/** Lines at commits that people wrote about, where sets of traces change, and at the points that are compared. */
function verticals(model) {
  const at = (column) => middle(model.points.find((each) => each.column <= column && column < each.column + each.columns) ?? { column, columns: 1 });
  const found = model.notes.map((note) => ({ column: middle(model.points[note.point]), kind: "noted" }));
  for (const each of model.sets) found.push({ column: border(model.points[each.point]), kind: "set" });
  if (model.looked) found.push({ column: at(model.looked.column), kind: "looked" });
  if (model.looked && model.looked.since !== null) found.push({ column: at(model.looked.since), kind: "since" });
  return found;
}

function shape({ column, kind }) {
  const [hue, dash] = { noted: ["doubt", "dot"], set: ["soft", "dot"], looked: ["edge", "solid"], since: ["edge", "dash"] }[kind];
  return {
    type: "line", xref: "x", yref: "paper", x0: column, x1: column, y0: 0, y1: 1, layer: "below", line: { color: colour(hue), width: 1, dash },
  };
}

/** Where the traces of averages change: before the point that has others. */
const border = ({ column }) => column - 0.5;

/** Texts at these lines; row -1 is above the plot. */
function texts(model, width) {
  const found = model.notes.map((note) => ({
    column: middle(model.points[note.point]), text: "✎", title: `${note.text} (${note.user})`, row: -1, anchor: "middle", kind: "noted",
  }));
  const { column, columns } = model.points.at(-1);
  const end = column + columns, span = end - model.points[0].column;
  const wide = (TEXT_PX / width) * span;
  // Texts close to each other are below each other, as far as there is room.
  const free = Array(TEXT_ROWS).fill(-Infinity);
  for (const { point, text, names } of model.sets) {
    const x = border(model.points[point]);
    const isLate = end - x < wide;
    const row = free.findIndex((from) => from <= (isLate ? x - wide : x));
    if (row < 0) continue;
    free[row] = isLate ? x : x + wide;
    found.push({ column: x, text, title: names, row, anchor: isLate ? "end" : "start", kind: "set" });
  }
  return found;
}

function annotation({ column, text, title, row, anchor, kind }) {
  return {
    x: column, xref: "x", y: 1, yref: "paper", showarrow: false, captureevents: true,
    xanchor: { start: "left", middle: "center", end: "right" }[anchor],
    yanchor: row < 0 ? "bottom" : "top", yshift: row < 0 ? 0 : -TEXT_HEIGHT_PX * row,
    text: escaped(text), hovertext: escaped(title), font: { color: colour(kind === "noted" ? "doubt" : "soft"), size: kind === "noted" ? 13 : 12 },
  };
}

function simulated(model) {
  if (!model.simulated) return [];
  return [{
    text: "SIMULATED", xref: "paper", yref: "paper", x: 0.5, y: 0.1, showarrow: false,
    font: { size: 40, color: translucent(colour("doubt"), 0.16) },
  }];
}

/** Where the plot is within its element, and the parts of the axes that are seen. */
function viewOf(model, plot) {
  const seen = model.isDense ? layout(model, plot, current.zoom) : plot._fullLayout;
  const { l, r, t, b } = model.isDense ? seen.margin : seen._size;
  return {
    left: l, top: t, width: plot.clientWidth - l - r, height: plot.clientHeight - t - b,
    columns: model.points.map(middle), x: seen.xaxis.range,
    ranges: new Map([...axesOf(model)].map(([unit, axis]) => [unit, seen[axis === "y" ? "yaxis" : "yaxis2"].range ?? [0, 1]])),
  };
}

const layer = (name) => document.querySelector(`#${name}`);

/** What is drawn, for the events of the pointer. */
let current = { model: null, handlers: null, view: null, zoom: WHOLE };

/**
 * Draw a model.
 * @param handlers has pointed(text, line) and tip(place, value, label) for what the pointer is at,
 *   chosen(line, point, compared) for a click on a point, zoomed(pairs) for another part that is seen, as the
 *   address has it, and whole(is) for whether it is all that there is.
 */
export async function draw(plot, model, handlers) {
  // Without lines it has no height.
  if (plot.dataset.drawn === "0") delete plot.dataset.drawn;
  current = { model, handlers, view: null, zoom: model.zoom };
  emphasised = null;
  if (model.isDense) {
    if (plot.dataset.kind && plot.dataset.kind !== "density") window.Plotly.purge(plot);
    plot.dataset.kind = "density";
    watch(plot);
    drawDensity(plot);
  } else {
    const Plotly = await loadPlotly();
    if (current.model !== model) return;
    wipe(layer("density"));
    clearAxes(layer("axes"));
    plot.dataset.kind = hasWebgl() ? "scattergl" : "scatter";
    await drawByPlotly(Plotly, plot, model, handlers);
    if (current.model !== model) return;
  }
  handlers.whole(!zoomOf(model, plot).length);
  plot.dataset.drawn = String(model.lines.length);
}

async function drawByPlotly(Plotly, plot, model, handlers) {
  await Plotly.react(plot, curves(model, plot.dataset.kind), layout(model, plot), { displayModeBar: false, responsive: true, doubleClick: false });
  const at = (event) => {
    const { data, pointNumber } = event.points[0];
    const change = data.meta?.changes?.[pointNumber];
    const place = change ? change.place : data.meta?.place;
    return { line: model.lines[place], point: change ? change.point : pointNumber, change };
  };
  for (const name of ["plotly_hover", "plotly_unhover", "plotly_click", "plotly_doubleclick", "plotly_relayout", "plotly_afterplot"]) plot.removeAllListeners(name);
  plot.on("plotly_hover", (event) => {
    const { line, point, change } = at(event);
    if (line) pointAt(plot, line, point, spot(plot, event.points[0]), change);
  });
  plot.on("plotly_unhover", () => leave(plot));
  plot.on("plotly_click", (event) => {
    const { line, point } = at(event);
    if (line) handlers.chosen(line, point, Boolean(event.event?.shiftKey));
  });
  plot.on("plotly_doubleclick", () => unzoom(plot, model));
  let seen = ranges(layout(model, plot));
  plot.on("plotly_relayout", () => {
    const now = ranges(plot.layout);
    // It may be about another width of the window only.
    if (!changed(seen, now).length) return;
    seen = now;
    handlers.zoomed(zoomOf(model, plot));
  });
  const follow = () => {
    // While the next model is drawn, the listeners are still those of this one.
    if (current.model !== model) return;
    current.view = viewOf(model, plot);
    bringOut(plot);
  };
  follow();
  plot.on("plotly_afterplot", follow);
}

/** Draw many lines, and their axes. */
function drawDensity(plot) {
  const { model } = current;
  const view = viewOf(model, plot);
  current.view = view;
  paint(layer("density"), model, view, [...Array(COLOURS).keys()].map((place) => colour(`c${place}`)));
  const { width } = view;
  drawAxes(layer("axes"), view, {
    titles: new Map(model.units.map((unit) => [unit, unit || model.numbers])),
    ticks: ticks(model, width), range: compared(model), verticals: verticals(model), notes: texts(model, width),
    points: points(model), faint: model.simulated ? "SIMULATED" : "",
  });
  bringOut(plot);
}

/** What is marked on lines: changes, and the point that is looked at. */
function points(model) {
  const lines = new Map(model.lines.map((line) => [line.id, line]));
  const found = [...model.suspected.map((each) => [each, "doubt"]), ...model.changes.map((each) => [each, each.direction])].map(([change, kind]) => {
    const line = lines.get(change.trace);
    return { column: middle(model.points[change.point]), value: valueAt(model, line, change), unit: line.unit, kind: `${change.after > change.before ? "up" : "down"} ${kind}` };
  });
  const line = lines.get(model.looked?.trace), at = model.points.findIndex((point) => point.column === model.looked?.column);
  if (line && at >= 0) found.push({ column: middle(model.points[at]), value: line.values[at], unit: line.unit, kind: "ring" });
  return found.filter((each) => !isMissing(each.value));
}

function pointAt(plot, line, point, { left, top }, change = null) {
  const { model, handlers } = current;
  const relative = change?.relative == null ? "" : ` of ${(100 * change.relative).toFixed(1)} %`;
  handlers.pointed(about(model, line, point) + (change ? `  ·  ${change.name}${relative}` : ""), line);
  handlers.tip({ left, top, isRight: left > plot.clientWidth / 2 }, valueOf(line, point), line.label);
  highlight(plot, model, line.id);
}

function leave(plot) {
  current.handlers.pointed("", null);
  current.handlers.tip(null);
  highlight(plot, current.model, null);
}

/** Let the pointer find and select what plotly does not draw. */
function watch(plot) {
  if (plot.dataset.watched) return;
  plot.dataset.watched = "yes";
  const isDense = () => Boolean(current.model?.isDense && current.view);
  const find = (event) => {
    const box = plot.getBoundingClientRect();
    return nearest(current.model, current.view, event.clientX - box.left, event.clientY - box.top);
  };
  let pressed = [0, 0];
  plot.addEventListener("pointermove", (event) => {
    if (!isDense()) return;
    const found = event.buttons ? null : find(event);
    if (found) pointAt(plot, found.line, found.point, found);
    else leave(plot);
  });
  plot.addEventListener("pointerleave", () => { if (isDense()) leave(plot); });
  plot.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; });
  plot.addEventListener("click", (event) => {
    // The end of a drag is a click, too.
    if (!isDense() || Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > CLICK_PX) return;
    const found = find(event);
    if (found) current.handlers.chosen(found.line, found.point, event.shiftKey);
  });
  plot.addEventListener("dblclick", () => { if (isDense()) unzoom(plot, current.model); });
  selectable(plot, layer("axes"), () => (isDense() ? current.view : null), ({ x, values }) => {
    const { zoom } = current;
    current.zoom = { columns: x ?? zoom.columns, values: { ...zoom.values, ...Object.fromEntries(values) } };
    drawDensity(plot);
    current.handlers.whole(false);
    current.handlers.zoomed(zoomOf(current.model, plot));
  });
  new ResizeObserver(() => { if (isDense()) drawDensity(plot); }).observe(plot);
}

/** Show all that there is again. */
export function unzoom(plot, model) {
  if (model.isDense) {
    current.zoom = WHOLE;
    drawDensity(plot);
    current.handlers.whole(true);
    current.handlers.zoomed([]);
    return;
  }
  const whole = Object.entries(ranges(layout(model, plot, WHOLE))).map(([axis, range]) => [`${axis}.range`, range]);
  window.Plotly.relayout(plot, Object.fromEntries(whole));
}

/** The ranges of the axes that a layout has. */
function ranges(of) {
  const axes = ["xaxis", "yaxis", "yaxis2"].filter((axis) => of[axis]?.range);
  return Object.fromEntries(axes.map((axis) => [axis, [...of[axis].range]]));
}

/** What of the plot is seen, as pairs of the address; none where it is all that there is. */
function zoomOf(model, plot) {
  const units = [...axesOf(model).keys()];
  const unit = { yaxis: units[0], yaxis2: units[1] };
  const seen = model.isDense ? layout(model, plot, current.zoom) : plot.layout;
  return changed(ranges(layout(model, plot, WHOLE)), ranges(seen)).map(([axis, range]) => (
    axis === "xaxis" ? ["x", written(range)] : ["y", `${written(range)} ${unit[axis]}`.trim()]
  ));
}

/** A range with no more digits than can be seen. */
function written(range) {
  const digits = Math.min(Math.max(3 - Math.floor(Math.log10(range[1] - range[0])), 0), 20);
  return range.map((end) => Number(end.toFixed(digits))).join("..");
}

const changed = (before, now) => Object.entries(now).filter(([axis, range]) => differ(range, before[axis]));

function differ(one, other = one) {
  const slack = 1e-6 * Math.abs(other[1] - other[0]);
  return one.some((end, at) => Math.abs(end - other[at]) > slack);
}

/** Where a point is drawn, in pixels from the corner of the plot. */
function spot(plot, { x, y, xaxis, yaxis }) {
  const { l, t } = plot._fullLayout._size;
  return { left: l + xaxis.d2p(x), top: t + yaxis.d2p(y) };
}

export function clear(plot) {
  if (window.Plotly && plot.dataset.kind !== "density") window.Plotly.purge(plot);
  current = { model: null, handlers: null, view: null, zoom: WHOLE };
  for (const name of ["density", "bright"]) wipe(layer(name));
  clearAxes(layer("axes"));
  delete plot.dataset.kind;
  plot.dataset.drawn = "0";
}

let emphasised = null;
/** Bring one line out; null: none. */
export function highlight(plot, model, identity) {
  if (identity === emphasised || !model || model !== current.model || !current.view) return;
  emphasised = identity;
  bringOut(plot);
}

function bringOut(plot) {
  const { model, view } = current;
  const place = emphasised === null ? -1 : model.lines.findIndex((line) => line.id === emphasised);
  plot.parentElement.classList.toggle("dimmed", place >= 0);
  if (place < 0) wipe(layer("bright"));
  else trace(layer("bright"), model.lines[place], view, colour(`c${place % COLOURS}`), colour("paper"));
}
