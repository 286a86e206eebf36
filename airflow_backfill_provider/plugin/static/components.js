// Components that several pages share.

import { count, distance, duration, percent, plural, since, stateName } from "./format.js";
import { h } from "./react.js";

export const Badge = ({ job }) => h("span.bf-badge", { "data-state": job.state }, stateName(job));

export const Progress = ({ name, summary }) => {
  const share = summary?.progress ?? 0;
  return h(
    "div.bf-progress",
    {
      "aria-label": `Progress of ${name}`,
      "aria-valuemax": 100,
      "aria-valuemin": 0,
      "aria-valuenow": Math.floor(share * 1000) / 10,
      "aria-valuetext": percent(share),
      role: "progressbar",
    },
    h("div", { style: { inlineSize: `${share * 100}%` } }),
  );
};

/** The lag of a view behind an upstream, in units of its offsets and in time. */
export const lag = (found) => {
  if (!found.upstream_answers) {
    return "Unknown";
  }
  if (!found.lag_versions) {
    return "None";
  }
  const lag = distance(found.lag_versions, found.lag_unit);
  return found.behind_since ? `${lag}, ${duration(since(found.behind_since))}` : lag;
};

export const Notice = ({ children, kind = "info", title }) =>
  h("div.bf-notice", { "data-kind": kind, role: kind === "error" ? "alert" : "status" }, title && h("strong", title), children);

export const Warnings = ({ warnings }) =>
  warnings.length
    ? h(
        Notice,
        { kind: "warning", title: "Warnings" },
        h("ul", ...warnings.map((warning) => h("li", { key: warning }, warning))),
      )
    : null;

/** When a view was last verified, and the result. */
export const verified = ({ verification_problem: problem, verification_waits: waits, verified: found }) => {
  if (problem) {
    return "Unknown";
  }
  const result = found
    ? `${found.equal ? "At" : "Differs at"} epoch ${count(found.epoch)}, ${duration(since(found.verified_at))} ago`
    : "Never";
  return waits ? `${result}; again with the next epoch` : result;
};

/** The differences between a view and its query that the newest verification found. */
export const Differences = ({ found }) => {
  if (!found || found.equal) {
    return null;
  }
  const kinds = Object.entries(found.keys).filter(([, keys]) => keys);
  return h(
    Notice,
    { kind: "warning", title: `The view differed from its query as of epoch ${count(found.epoch)}` },
    h("p", `${kinds.map(([kind, keys]) => `${plural(keys, "key")} ${kind}`).join(", ")}, in the vnodes ${found.vnodes}.`),
    h(
      "ul",
      ...found.sample.map(({ columns, key, kind, vnode }) =>
        h(
          "li",
          { key: `${vnode} ${JSON.stringify(key)}` },
          `${kind}: `,
          h("code", JSON.stringify(key)),
          ` of vnode ${vnode}`,
          columns.length ? ` in ${columns.join(", ")}` : "",
        ),
      ),
    ),
  );
};

/** The rows that the newest verification could not compare. */
export const Removed = ({ found }) =>
  found && found.removed_rows
    ? h(
        "p.bf-muted",
        `${plural(found.removed_rows, "row")} of the view could not be verified, because the upstream has removed the records since.`,
      )
    : null;

/** The content of a page without data. */
export const Placeholder = ({ error }) =>
  error
    ? h(Notice, { kind: "error", title: "This cannot be shown" }, error.message)
    : h("p.bf-muted", { role: "status" }, "Loading…");

/** The warning of a page that shows old data because the server does not answer. */
export const Stale = ({ error }) =>
  error ? h(Notice, { kind: "warning", title: "Not up to date" }, `${error.message} Trying again.`) : null;
