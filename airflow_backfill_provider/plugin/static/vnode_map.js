// The map of all vnodes: at most 256 cells, each coloured by the progress of its vnodes.

import { useActiveItem } from "./active_item.js";
import { count, plural } from "./format.js";
import { h } from "./react.js";

const share = (cell) => (cell.completed + cell.in_progress / 2) / (cell.last - cell.first + 1);

const state = (cell) => {
  if (cell.completed === cell.last - cell.first + 1) {
    return "completed";
  }
  return cell.completed || cell.in_progress ? "in_progress" : "not_started";
};

const describe = (cell, byVnode) => {
  const all = cell.last - cell.first + 1;
  const which = all === 1 ? `Vnode ${cell.first}` : `Vnodes ${cell.first} to ${cell.last}`;
  const counted = [
    [cell.completed, "completed"],
    [cell.in_progress, "in progress"],
    [cell.not_started, "not started"],
  ].filter(([number]) => number);
  const states = counted.map(([number, name]) => (all === 1 ? name : `${count(number)} ${name}`)).join(", ");
  const position = cell.position ? `; position ${cell.position.map((value) => value ?? "null").join(", ")}` : "";
  return `${which}: ${states}${position}; ${plural(cell.rows, "row")}${byVnode ? "" : " of all vnodes together"}`;
};

/** If vnodes share one position (`byVnode` is false), each one has the progress of the job. */
export const VnodeMap = ({ byVnode, cells, counts, progress }) => {
  const columns = cells.length > 64 ? 32 : 16;
  const [active, holder, item] = useActiveItem(cells.length, columns);
  return h(
    "section.bf-panel",
    { "aria-label": "Vnodes" },
    h("h3", "Vnodes"),
    h(
      "p.bf-legend",
      ...[
        ["completed", counts.completed],
        ["in_progress", counts.in_progress],
        ["not_started", counts.not_started],
      ].map(([name, number]) =>
        h("span", { key: name }, h("i.bf-cell", { "data-state": name }), `${count(number)} ${name.replace("_", " ")}`),
      ),
    ),
    h(
      "div.bf-map",
      { ...holder, "aria-label": "Map of vnodes", style: { "--columns": columns } },
      ...cells.map((cell, index) =>
        h("div.bf-cell", {
          ...item(index),
          "aria-label": describe(cell, byVnode),
          "data-state": state(cell),
          key: cell.first,
          style: { "--share": byVnode ? share(cell) : progress },
        }),
      ),
    ),
    h("p.bf-muted.bf-hint", active === null ? "Point at a cell, or use the arrow keys." : describe(cells[active], byVnode)),
  );
};
