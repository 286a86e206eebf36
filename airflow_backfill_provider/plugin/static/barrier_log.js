// The history of a job: its barrier log page by page, newest first, and the changes of its settings.

import { jobPath, read } from "./api.js";
import { count, duration, MUTATIONS, plural, time } from "./format.js";
import { Notice } from "./components.js";
import { Fragment, h, Link, useEffect, useState } from "./react.js";

/** What an epoch did with the view's units: which it wrote, how, what it read again for that, and why. */
const workOf = ({ work, reason }) =>
  (work.units === undefined || work.units === null ? "The whole view" : plural(work.units, "unit")) +
  ` by ${work.technique}` +
  (work.rows_read === undefined || work.rows_read === null ? "" : `, ${plural(work.rows_read, "row")} read again`) +
  (reason ? `; ${reason}` : "");

const Mutations = ({ epoch }) =>
  h(
    Fragment,
    ...epoch.mutations.map((pinned, index) =>
      h(
        "div",
        { key: index },
        h("strong", MUTATIONS[pinned.mutation](pinned.value)),
        ` by ${pinned.requested_by}, ${time(pinned.requested_at)}`,
      ),
    ),
    epoch.rate_limit_reason && h("div.bf-muted", `At most ${count(epoch.rate_limit)} rows, ${epoch.rate_limit_reason}`),
    epoch.work && h("div.bf-muted", workOf(epoch)),
    ...epoch.warnings.map((warning) => h("div.bf-warning", { key: warning }, warning)),
  );

const Requester = ({ epoch }) =>
  epoch.dag_id && epoch.run_id
    ? h(
        Link,
        { title: epoch.requested_by, to: `/dags/${encodeURIComponent(epoch.dag_id)}/runs/${encodeURIComponent(epoch.run_id)}` },
        epoch.run_id,
      )
    : epoch.requested_by;

const Row = ({ epoch }) =>
  h(
    "tr",
    h("th", { scope: "row" }, count(epoch.epoch)),
    h("td", time(epoch.injected_at)),
    h("td", epoch.to_offset === epoch.from_offset ? `${epoch.to_offset}, nothing new` : `(${epoch.from_offset}, ${epoch.to_offset}]`),
    h("td.bf-number", epoch.rows === null ? h("em", "not committed") : count(epoch.rows)),
    h("td.bf-number", count(epoch.changes)),
    h("td.bf-number", epoch.committed_at ? duration((Date.parse(epoch.committed_at) - Date.parse(epoch.injected_at)) / 1000) : "–"),
    h("td", h(Mutations, { epoch })),
    h("td.bf-clip", h(Requester, { epoch })),
  );

const merge = (newest, older) => {
  const oldest = newest.at(-1)?.epoch ?? Infinity;
  return [...newest, ...older.filter((epoch) => epoch.epoch < oldest)];
};

/** `version` changes whenever the log may have changed. */
export const BarrierLog = ({ dagId, name, version }) => {
  const path = `${jobPath(dagId, name)}/log`;
  const [{ epochs, error, older }, setLog] = useState({ epochs: null });
  const load = async (parameters, next) => {
    try {
      const page = await read(path, parameters);
      setLog((log) => next(page, log));
    } catch (problem) {
      setLog((log) => ({ ...log, error: problem }));
    }
  };
  useEffect(() => {
    // Keep the older epochs that were loaded, unless epochs are missing between them and the newest page.
    load({}, (page, log) => {
      const gap = log.epochs?.length && page.epochs.length && log.epochs[0].epoch < page.epochs.at(-1).epoch - 1;
      const kept = gap ? [] : (log.epochs ?? []);
      return { epochs: merge(page.epochs, kept), older: kept.length > page.epochs.length ? log.older : page.older };
    });
  }, [path, version]);
  return h(
    "section.bf-panel",
    { "aria-label": "Barrier log" },
    h("h3", "Barrier log"),
    error && h(Notice, { kind: "error" }, error.message),
    epochs &&
      !epochs.length &&
      h("p.bf-muted", "No barrier has been pinned yet."),
    epochs?.length > 0 &&
      h(
        "div.bf-scroll",
        { "aria-label": "Barrier log, scrollable", role: "region", tabIndex: 0 },
        h(
          "table.bf-table",
          h(
            "thead",
            h(
              "tr",
              ...["Epoch", "Pinned", "Versions", "Rows", "Changes", "Took", "Mutations and warnings", "Requested by"].map((title) =>
                h("th", { className: ["Rows", "Changes", "Took"].includes(title) ? "bf-number" : "", key: title, scope: "col" }, title),
              ),
            ),
          ),
          h("tbody", ...epochs.map((epoch) => h(Row, { epoch, key: epoch.epoch }))),
        ),
      ),
    older &&
      h(
        "button.bf-button",
        {
          onClick: () =>
            load({ before_epoch: older }, (page, log) => ({ epochs: merge(log.epochs, page.epochs), older: page.older })),
          type: "button",
        },
        "Show older epochs",
      ),
  );
};

export const Changes = ({ changes }) =>
  h(
    "section.bf-panel",
    { "aria-label": "Changes of the settings" },
    h("h3", "Changes of the settings"),
    h(
      "div.bf-scroll",
      { "aria-label": "Changes of the settings, scrollable", role: "region", tabIndex: 0 },
      h(
        "table.bf-table",
        h("thead", h("tr", ...["When", "What", "By"].map((title) => h("th", { key: title, scope: "col" }, title)))),
        h(
          "tbody",
          ...changes.map((change) =>
            h(
              "tr",
              { key: change.sequence },
              h("td", time(change.requested_at)),
              h("td", MUTATIONS[change.change](change.value)),
              h("td", change.requested_by),
            ),
          ),
        ),
      ),
    ),
  );
