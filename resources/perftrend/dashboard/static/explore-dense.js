/**
 * Many lines: their density, drawn pixel by pixel, and the line that is the nearest to the pointer.
 *
 * WebGL draws a thousand lines fast only with a graphics card, and plotly takes a second to prepare them. Here a
 * line adds one to the first pixel that it covers in each column and takes it away after the last; the sums
 * along the columns are the numbers of lines at all pixels. The work does not depend on how steep lines are.
 */

import { across, down } from "./explore-axes.js";

const MOST_RATIO = 2;
const NEAR_PX = 24;
const MISSING = 0xffff;

/** Numbers of 16 bits in base64, as the lines' values; see _dense_lines of plot_data.py. */
export function unpack(model) {
  if (!model.packed) return model;
  const text = atob(model.packed), bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  // Every machine with a browser stores the low byte first.
  const numbers = new Uint16Array(bytes.buffer), count = model.points.length;
  model.lines.forEach((line, place) => {
    const values = new Float64Array(count), { low, step } = line;
    for (let at = 0, from = place * count; at < count; at += 1, from += 1) {
      values[at] = numbers[from] === MISSING ? NaN : low + numbers[from] * step;
    }
    line.values = values;
  });
  model.isDense = true;
  delete model.packed;
  return model;
}

/** Fit a canvas to its place; return the size of a pixel of the page in its pixels. */
function fit(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, MOST_RATIO);
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.getContext("2d").clearRect(0, 0, width, height);
  return ratio;
}

export function wipe(canvas) {
  fit(canvas);
}

/**
 * Draw the density of lines.
 * @param view has left, top, width and height of the plot in pixels of the page, columns (the position of each
 *   point), x (the range of columns that is seen), and ranges (the range of values by unit).
 * @param hues are the colours of lines, as #rrggbb, in turn.
 */
export function paint(canvas, model, view, hues) {
  const ratio = fit(canvas);
  const width = Math.floor(view.width * ratio), height = Math.floor(view.height * ratio);
  if (width < 2 || height < 2) return;
  const colours = hues.map((hue) => [1, 3, 5].map((at) => parseInt(hue.slice(at, at + 2), 16)));
  const sums = new Int32Array(4 * width * (height + 1));
  const at = Float64Array.from(view.columns, (column) => ((column - view.x[0]) / (view.x[1] - view.x[0])) * width);
  // What a line covers of each column: once, although it comes and goes by several points.
  const least = new Float64Array(width), most = new Float64Array(width), y = new Float64Array(at.length);
  model.lines.forEach((line, place) => {
    const range = view.ranges.get(line.unit);
    if (!range) return;
    const scale = height / (range[1] - range[0]);
    // A loop: the functions of arrays take ten times as long for a million values.
    for (let point = 0; point < y.length; point += 1) y[point] = (range[1] - line.values[point]) * scale;
    least.fill(Infinity);
    most.fill(-Infinity);
    extend(least, most, at, y, ratio);
    add(sums, least, most, height, colours[place % colours.length]);
  });
  show(canvas, sums, { width, height, ratio, view, lines: model.lines.length });
}

/**
 * Extend what a line covers of each column.
 * @param at is the horizontal position of each point, in pixels.
 * @param y is the vertical one; what is missing is no number.
 */
function extend(least, most, at, y, ratio) {
  const width = least.length;
  for (let point = 0; point < y.length; point += 1) {
    const from = y[point];
    if (from !== from) continue;
    const begin = at[point], next = point + 1 < y.length ? y[point + 1] : NaN;
    if (next !== next) {
      // Without a neighbour there is no line to see it by.
      const isAlone = point === 0 || y[point - 1] !== y[point - 1], column = Math.floor(begin);
      if (isAlone && column >= 0 && column < width) {
        least[column] = Math.min(least[column], from - ratio);
        most[column] = Math.max(most[column], from + ratio);
      }
      continue;
    }
    const end = at[point + 1], slope = (next - from) / (end - begin);
    const first = Math.max(Math.floor(begin), 0), last = Math.min(Math.floor(end), width - 1);
    let left = first <= begin ? from : from + (first - begin) * slope;
    for (let column = first; column <= last; column += 1) {
      const right = column + 1 >= end ? next : from + (column + 1 - begin) * slope;
      const low = left < right ? left : right, high = left < right ? right : left;
      if (low < least[column]) least[column] = low;
      if (high > most[column]) most[column] = high;
      left = right;
    }
  }
}

/**
 * Add a line to the sums: to the first pixel that it covers in each column, and off after the last.
 * @param sums has red, green, blue and the number of lines of each pixel, in columns with one pixel more.
 */
function add(sums, least, most, height, [r, g, b]) {
  for (let column = 0; column < least.length; column += 1) {
    if (most[column] < 0 || least[column] >= height) continue;
    const first = least[column] > 0 ? Math.floor(least[column]) : 0;
    const last = most[column] < height ? Math.floor(most[column]) : height - 1;
    const begin = 4 * (column * (height + 1) + first), end = begin + 4 * (last + 1 - first);
    sums[begin] += r; sums[begin + 1] += g; sums[begin + 2] += b; sums[begin + 3] += 1;
    sums[end] -= r; sums[end + 1] -= g; sums[end + 2] -= b; sums[end + 3] -= 1;
  }
}

/** The opacity of one line and of more: a single one can be seen, and where most are can be told apart. */
function opacitiesOf(lines) {
  const single = Math.min(Math.max(8 / Math.sqrt(lines), 0.4), 0.85), all = Math.log(lines);
  return Uint8Array.from({ length: lines + 1 }, (_, number) => 255 * (single + (1 - single) * (Math.log(Math.max(number, 1)) / (all || 1))));
}

/** Sum along the columns, and write the pixels: their colour is the mean of the lines there. */
function show(canvas, sums, { width, height, ratio, view, lines: count }) {
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const pixels = image.data;
  const opacities = opacitiesOf(count);
  for (let column = 0; column < width; column += 1) {
    let r = 0, g = 0, b = 0, lines = 0;
    for (let row = 0, from = 4 * column * (height + 1); row < height; row += 1, from += 4) {
      r += sums[from]; g += sums[from + 1]; b += sums[from + 2]; lines += sums[from + 3];
      if (!lines) continue;
      const to = 4 * (row * width + column);
      pixels[to] = r / lines; pixels[to + 1] = g / lines; pixels[to + 2] = b / lines;
      pixels[to + 3] = opacities[lines];
    }
  }
  context.putImageData(image, Math.round(view.left * ratio), Math.round(view.top * ratio));
}

/** Draw one line above all others. */
export function trace(canvas, line, view, hue, paper) {
  const ratio = fit(canvas), context = canvas.getContext("2d"), range = view.ranges.get(line.unit);
  if (!range) return;
  context.save();
  context.scale(ratio, ratio);
  context.beginPath();
  context.rect(view.left, view.top, view.width, view.height);
  context.clip();
  context.beginPath();
  let isOpen = false;
  for (let point = 0; point < view.columns.length; point += 1) {
    const value = line.values[point];
    if (value === null || Number.isNaN(value)) {
      isOpen = false;
      continue;
    }
    const x = xOf(view, point), y = down(view, range, value);
    if (isOpen) context.lineTo(x, y);
    else {
      // A value without a neighbour is a dot.
      context.moveTo(x - 0.01, y);
      context.lineTo(x, y);
    }
    isOpen = true;
  }
  Object.assign(context, { lineJoin: "round", lineCap: "round" });
  for (const [style, lineWidth] of [[paper, 5], [hue, 2]]) {
    Object.assign(context, { strokeStyle: style, lineWidth });
    context.stroke();
  }
  context.restore();
}

const xOf = (view, point) => across(view, view.columns[point]);

/** The line nearest to a place in pixels, and its nearest point there; null: none is near. */
export function nearest(model, view, left, top) {
  const { columns, x, ranges } = view;
  const isInside = left >= view.left && left <= view.left + view.width && top >= view.top && top <= view.top + view.height;
  if (!isInside || !columns.length) return null;
  const column = x[0] + ((left - view.left) / view.width) * (x[1] - x[0]);
  let next = columns.findIndex((each) => each >= column);
  if (next < 0) next = columns.length - 1;
  const before = Math.max(next - 1, 0);
  const share = next === before ? 0 : Math.min(Math.max((column - columns[before]) / (columns[next] - columns[before]), 0), 1);
  const close = share < 0.5 ? before : next, far = close === next ? before : next;
  let best = null, least = NEAR_PX;
  for (const line of model.lines) {
    const range = ranges.get(line.unit);
    if (!range) continue;
    const from = line.values[before], to = line.values[next];
    const point = Number.isNaN(line.values[close]) ? far : close;
    const value = Number.isNaN(from) || Number.isNaN(to) ? line.values[point] : from + share * (to - from);
    const distance = Math.abs(down(view, range, value) - top);
    // A line without a value is not near: the distance is no number.
    if (distance < least) [best, least] = [{ line, point }, distance];
  }
  if (!best) return null;
  const { line, point } = best, spot = { left: xOf(view, point), top: down(view, ranges.get(line.unit), line.values[point]) };
  return Math.abs(spot.left - left) > 3 * NEAR_PX ? null : { ...best, ...spot };
}
