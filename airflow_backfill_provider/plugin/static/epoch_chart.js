// Rows and seconds of the newest epochs: bars for rows, a line for seconds.

import { useActiveItem } from "./active_item.js";
import { compact, count, duration, plural, time } from "./format.js";
import { h } from "./react.js";

const [WIDTH, HEIGHT, TOP] = [600, 150, 8];

const describe = (point) =>
  `Epoch ${point.epoch}: ${plural(point.rows, "row")}, ${plural(point.changes, "change")}, ` +
  `${duration(point.seconds)}; committed ${time(point.committed_at)}`;

export const EpochChart = ({ epochs }) => {
  const [active, holder, item] = useActiveItem(epochs.length);
  const heading = h("h3", "Rows and seconds per epoch");
  if (!epochs.length) {
    return h("section.bf-panel", { "aria-label": "Epochs" }, heading, h("p.bf-muted", "No epoch has been committed yet."));
  }
  const most = { rows: Math.max(...epochs.map((p) => p.rows), 1), seconds: Math.max(...epochs.map((p) => p.seconds), 0.001) };
  const step = WIDTH / Math.max(epochs.length, 12);
  const height = (value, of) => ((HEIGHT - TOP) * value) / of;
  const line = epochs.map((p, index) => `${(index + 0.5) * step},${HEIGHT - height(p.seconds, most.seconds)}`).join(" ");
  return h(
    "section.bf-panel",
    { "aria-label": "Epochs" },
    heading,
    h(
      "p.bf-legend",
      h("span", h("i.bf-bar"), `rows, at most ${compact(most.rows)}`),
      h("span", h("i.bf-line"), `seconds, at most ${duration(most.seconds)}`),
      h("span.bf-muted", `epochs ${count(epochs[0].epoch)} to ${count(epochs.at(-1).epoch)}`),
    ),
    h(
      "svg.bf-chart",
      { ...holder, "aria-label": "Chart of epochs", preserveAspectRatio: "none", viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
      h("line.bf-axis", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      ...epochs.map((point, index) =>
        h(
          "g",
          { ...item(index), "aria-label": describe(point), key: point.epoch },
          h("rect.bf-hit", { height: HEIGHT, width: step, x: index * step, y: 0 }),
          h("rect.bf-bar", {
            height: height(point.rows, most.rows),
            width: step * 0.8,
            x: (index + 0.1) * step,
            y: HEIGHT - height(point.rows, most.rows),
          }),
        ),
      ),
      h("polyline.bf-line", { points: line }),
    ),
    h("p.bf-muted.bf-hint", active === null ? "Point at an epoch, or use the arrow keys." : describe(epochs[active])),
  );
};
