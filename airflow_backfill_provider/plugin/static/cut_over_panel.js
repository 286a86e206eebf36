// Shows what waits for an approval, and how it differs from the view that serves.

import { jobPath, post } from "./api.js";
import { Notice } from "./components.js";
import { Dialog } from "./dialog.js";
import { count, cutOverReason, time } from "./format.js";
import { usePolling } from "./polling.js";
import { Fragment, h, useState } from "./react.js";

const Approve = ({ act, found, job, onClose }) =>
  h(
    Dialog,
    { act, label: "Approve", onClose, title: `Let it go live in ${job.name}?` },
    h("p", "The next epochs let it go live, in one commit. This is what you approve:"),
    h("ul", ...found.lines.map((line) => h("li", { key: line }, line))),
  );

const Difference = ({ found }) =>
  found.number === null
    ? h(
        "p.bf-muted",
        "Nobody has compared it with the view that serves yet. Compare with ",
        h("code", "airflow-backfill diff"),
        ", or run a task of ApproveCutOverOperator.",
      )
    : h(
        Fragment,
        h("ul", ...found.lines.map((line) => h("li", { key: line }, line))),
        h("ul", ...found.keys.map((key) => h("li", { key }, h("code", key)))),
        found.left > 0 && h("p.bf-muted", `and ${count(found.left)} more`),
        h("p.bf-muted", `Compared ${time(found.compared_at)}. Later epochs of the same definition change nothing about it.`),
      );

/** Rendered only while something waits. */
export const CutOverPanel = ({ dagId, job, onDone }) => {
  const path = jobPath(dagId, job.name);
  const { data: found, error } = usePolling(`${path}/difference`);
  const [open, setOpen] = useState(false);
  const act = async () => {
    await post(`${path}/approve`, { difference: found.number });
    onDone();
  };
  return h(
    "section.bf-panel",
    { "aria-label": "Waits for an approval" },
    h("h3", "Waits for an approval"),
    h("p", { "aria-live": "polite" }, cutOverReason(job.summary.cut_over)),
    error && h(Notice, { kind: "error", title: "The difference cannot be read" }, error.message),
    found && h(Difference, { found }),
    found && found.number !== null && job.may_act && h("button.bf-button.bf-primary", { onClick: () => setOpen(true), type: "button" }, "Approve"),
    open && h(Approve, { act, found, job, onClose: () => setOpen(false) }),
  );
};
