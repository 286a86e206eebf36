// The splits of a job's upstream, such as the partitions of a topic, each with its progress.

import { count, percent } from "./format.js";
import { h } from "./react.js";

const STAGES = { backfilling: "in_progress", catching_up: "in_progress", finished: "completed" };

const share = ({ begin, end, next }) => (end > begin ? Math.min((next - begin) / (end - begin), 1) : 1);

const Row = ({ split }) =>
  h(
    "tr",
    h("th", { scope: "row" }, count(split.split)),
    h(
      "td",
      h("i.bf-cell", { "aria-hidden": true, "data-state": STAGES[split.stage], style: { "--share": share(split) } }),
      ` ${split.stage.replace("_", " ")}`,
    ),
    h("td.bf-number", percent(share(split))),
    h("td.bf-number", count(split.begin)),
    h("td.bf-number", count(split.next)),
    h("td.bf-number", count(split.end)),
    h("td.bf-number", count(Math.max(split.end - split.next, 0))),
    h("td.bf-number", split.rows === null ? "–" : count(split.rows)),
  );

const COLUMNS = [
  ["Split", "The number of the split, such as a partition of a topic"],
  ["Stage", "Catching up: with what was appended since the job was created. Finished: what is appended is a change"],
  ["Read", "The share of the split that the view has"],
  ["From", "The first place that the job reads"],
  ["Next", "The place after those that the view has"],
  ["End", "The place after the newest row"],
  ["Lag", "Places that the view lacks; gaps are counted, too"],
  ["Rows", "Rows read until the split was finished"],
];

export const SplitTable = ({ splits }) =>
  splits.length > 0 &&
  h(
    "section.bf-panel",
    { "aria-label": "Splits" },
    h("h3", "Splits"),
    h(
      "div.bf-scroll",
      h(
        "table.bf-table",
        h("thead", h("tr", ...COLUMNS.map(([name, title]) => h("th", { key: name, scope: "col", title }, name)))),
        h("tbody", ...splits.map((split) => h(Row, { key: split.split, split }))),
      ),
    ),
  );
