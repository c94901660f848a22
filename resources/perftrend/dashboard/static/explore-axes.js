/** Axes of a plot of many lines, as SVG: plotly alone would take a second before the plot reacts to anything. */

const SVG = "http://www.w3.org/2000/svg";
const TICK_PX = 50;
const TITLE_PX = 14;
const LEAST_DRAG_PX = 8;
const LEAST_LEFT_PX = 60;

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** Round numbers within a range, at most so many. */
export function roundTicks([low, high], most) {
  const least = (high - low) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
  const digits = Math.min(Math.max(-Math.floor(Math.log10(step) + 1e-9), 0), 20);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const value = (first + at) * step;
    return { value, text: value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1") };
  });
}

export const across = (view, column) => view.left + ((column - view.x[0]) / (view.x[1] - view.x[0])) * view.width;
export const down = (view, [low, high], value) => view.top + ((high - value) / (high - low)) * view.height;

/**
 * Draw axes and what is marked.
 * @param view as for the density of lines.
 * @param marks has titles (of the units), ticks ({column, lines}), range (two columns or null), verticals ({column,
 *   kind}), notes ({column, text, title, row}), points ({column, value, unit, kind}), and faint, a text across the plot.
 */
export function drawAxes(svg, view, marks) {
  const { left, top, width, height } = view, right = left + width, bottom = top + height;
  const group = element("g");
  [...view.ranges].forEach(([unit, range], side) => {
    const at = side ? right : left;
    for (const { value, text } of roundTicks(range, height / TICK_PX)) {
      const y = down(view, range, value);
      if (!side) group.append(element("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
      group.append(element("text", { x: at + (side ? 5 : -5), y: y + 4, "text-anchor": side ? "start" : "end" }, text));
    }
    const x = side ? svg.clientWidth - 4 : TITLE_PX;
    // In a narrow window, there is only room above the axis.
    const place = left < LEAST_LEFT_PX
      ? { x: side ? svg.clientWidth : 0, y: 10, "text-anchor": side ? "end" : "start" }
      : { transform: `translate(${x} ${top + height / 2}) rotate(-90)`, "text-anchor": "middle" };
    group.append(element("text", { class: "title", ...place }, marks.titles.get(unit)));
    group.append(element("line", { class: "axis", x1: at, x2: at, y1: top, y2: bottom }));
  });
  group.append(element("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  const isInside = (column) => column >= view.x[0] && column <= view.x[1];
  for (const { column, lines } of marks.ticks.filter((each) => isInside(each.column))) {
    const text = element("text", { "text-anchor": "middle" });
    lines.forEach((line, row) => text.append(element("tspan", { x: across(view, column), y: bottom + 15 + 15 * row }, line)));
    group.append(text);
  }
  if (marks.range) {
    const [from, to] = marks.range.map((column) => Math.min(Math.max(across(view, column), left), right));
    group.append(element("rect", { class: "compared", x: from, y: top, width: to - from, height }));
  }
  for (const { column, kind } of marks.verticals.filter((each) => isInside(each.column))) {
    const x = across(view, column);
    group.append(element("line", { class: `vertical ${kind}`, x1: x, x2: x, y1: top, y2: bottom }));
  }
  if (marks.faint) group.append(element("text", { class: "faint", x: left + width / 2, y: top + 0.9 * height, "text-anchor": "middle" }, marks.faint));
  for (const { column, text, title, row, anchor } of marks.notes.filter((each) => isInside(each.column))) {
    const note = element("text", { class: "note", x: across(view, column) + { start: 3, middle: 0, end: -3 }[anchor], y: top + 12 + 16 * row, "text-anchor": anchor }, text);
    note.append(element("title", {}, title));
    group.append(note);
  }
  for (const { column, value, unit, kind } of marks.points.filter((each) => isInside(each.column) && view.ranges.has(each.unit))) {
    const place = `translate(${across(view, column)} ${down(view, view.ranges.get(unit), value)})`;
    const shape = { ring: ["circle", { r: 7 }], up: ["path", { d: "M0-8 7 5H-7Z" }], down: ["path", { d: "M0 8 7-5H-7Z" }] };
    const [name, attributes] = shape[kind.split(" ")[0]];
    group.append(element(name, { class: `mark ${kind}`, transform: place, ...attributes }));
  }
  svg.replaceChildren(group);
}

export function clearAxes(svg) {
  svg.replaceChildren();
}

/**
 * Let a drag select a part of the plot.
 * @param view returns the current view; null: there is nothing to select.
 * @param onSelect is called with the new ranges: x, and values by unit; what was not dragged is missing.
 */
export function selectable(plot, svg, view, onSelect) {
  let from = null;
  const place = (event, { left, top, width, height }) => {
    const box = plot.getBoundingClientRect();
    return [Math.min(Math.max(event.clientX - box.left, left), left + width), Math.min(Math.max(event.clientY - box.top, top), top + height)];
  };
  /** The rectangle of a drag; in one direction alone, all of the other. */
  const dragged = (event) => {
    const seen = view(), to = place(event, seen);
    const [isWide, isHigh] = [0, 1].map((at) => Math.abs(to[at] - from[at]) >= LEAST_DRAG_PX);
    const [x0, x1] = isWide ? [from[0], to[0]].sort((one, other) => one - other) : [seen.left, seen.left + seen.width];
    const [y0, y1] = isHigh ? [from[1], to[1]].sort((one, other) => one - other) : [seen.top, seen.top + seen.height];
    return { isWide, isHigh, x0, x1, y0, y1, seen };
  };
  const hide = () => svg.querySelector(".selection")?.remove();
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch" || !view()) return;
    const seen = view(), box = plot.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (x < seen.left || x > seen.left + seen.width || y < seen.top || y > seen.top + seen.height) return;
    from = [x, y];
    // No text is selected meanwhile.
    event.preventDefault();
  });
  window.addEventListener("pointermove", (event) => {
    if (!from || !view()) return;
    hide();
    const { isWide, isHigh, x0, x1, y0, y1 } = dragged(event);
    if (isWide || isHigh) svg.append(element("rect", { class: "selection", x: x0, y: y0, width: x1 - x0, height: y1 - y0 }));
  });
  window.addEventListener("pointerup", (event) => {
    if (!from || !view()) return;
    const { isWide, isHigh, x0, x1, y0, y1, seen } = dragged(event);
    from = null;
    hide();
    if (!isWide && !isHigh) return;
    const column = (x) => seen.x[0] + ((x - seen.left) / seen.width) * (seen.x[1] - seen.x[0]);
    const value = ([low, high], y) => high - ((y - seen.top) / seen.height) * (high - low);
    onSelect({
      x: isWide ? [column(x0), column(x1)] : null,
      values: isHigh ? new Map([...seen.ranges].map(([unit, range]) => [unit, [value(range, y1), value(range, y0)]])) : new Map(),
    });
  });
}
