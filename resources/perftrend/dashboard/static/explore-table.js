/** Tables that are sorted by a click on a column header. */

const COMPARED = new Intl.Collator(undefined, { numeric: true });

/**
 * @param order is [column, "ascending" or "descending"], if the table was sorted before; else null.
 * @param onSort is called with the new order.
 */
export function sortable(table, order, onSort) {
  if (table.dataset.sortable === "ready") return;
  table.dataset.sortable = "ready";
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "Sort";
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      sort(table, column, direction);
      onSort([column, direction]);
    });
    head.replaceChildren(button);
  });
  if (order) sort(table, ...order);
}

function sort(table, column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => sign * compared(one.cells[column], other.cells[column]));
  for (const each of table.querySelectorAll("[aria-sort]")) each.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", direction);
  table.tBodies[0].append(...rows);
}

function compared(one, other) {
  const [left, right] = [one.dataset.value, other.dataset.value];
  if (left === undefined) return COMPARED.compare(one.textContent, other.textContent);
  return (left === "" ? -Infinity : Number(left)) - (right === "" ? -Infinity : Number(right)) || 0;
}
