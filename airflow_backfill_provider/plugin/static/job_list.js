// The list of jobs, with one line for each.

import { behind, compact, count, duration, percent, reason, STATES } from "./format.js";
import { Badge, lag, Placeholder, Progress, Stale } from "./components.js";
import { useClock, usePolling } from "./polling.js";
import { Fragment, h, Link, useEffect, useSearchParams, useState } from "./react.js";

const PAGE = 25;
const TYPING_MILLISECONDS = 250;
const FILTERS = ["running", "waiting", "paused", "ready", "finished", "cancelled", "not_created", "unreadable"];

const COLUMNS = [
  ["Job"],
  ["DAG", "bf-optional"],
  ["State"],
  ["Progress"],
  ["Rows read", "bf-number"],
  ["Rate", "bf-number bf-optional"],
  ["Time left", "bf-number"],
  ["Lag"],
  ["Epoch", "bf-number bf-optional"],
];

const Line = ({ job, to }) => {
  const { summary } = job;
  return h(
    "tr",
    h("th.bf-clip", { scope: "row" }, h(Link, { title: job.name, to }, job.name)),
    h(
      "td.bf-clip.bf-optional",
      { title: job.dag_ids.join(", ") },
      h(Link, { to: `/dags/${encodeURIComponent(job.dag_ids[0])}` }, job.dag_ids[0]),
      job.dag_ids.length > 1 && h("span.bf-muted", ` +${job.dag_ids.length - 1}`),
    ),
    h(
      "td",
      { title: reason(job) },
      h(Badge, { job }),
      summary?.warnings.length > 0 &&
        h("span.bf-warning", { role: "img", "aria-label": "has warnings", title: summary.warnings.join("\n") }, " ⚠"),
    ),
    summary
      ? h(
          Fragment,
          h("td", h("div.bf-meter", h(Progress, { name: job.name, summary }), h("span", percent(summary.progress)))),
          h("td.bf-number", { title: `${count(summary.rows_read)} of about ${count(summary.rows_estimated)}` }, compact(summary.rows_read)),
          h("td.bf-number.bf-optional", summary.rows_per_second === null ? "–" : `${compact(summary.rows_per_second)}/s`),
          h("td.bf-number", summary.finished ? "–" : duration(summary.eta_seconds)),
          h("td", lag(behind(summary))),
          h("td.bf-number.bf-optional", count(summary.epoch)),
        )
      : h("td.bf-muted", { colSpan: 6 }, reason(job)),
  );
};

export const JobTable = ({ jobs, pathOf }) =>
  h(
    "div.bf-scroll",
    { "aria-label": "Backfills, scrollable", role: "region", tabIndex: 0 },
    h(
      "table.bf-table",
      { "aria-label": "Backfills" },
      h(
        "thead",
        h(
          "tr",
          ...COLUMNS.map(([title, className]) => h("th", { className, key: title, scope: "col" }, title)),
        ),
      ),
      h("tbody", ...jobs.map((job) => h(Line, { job, key: `${job.name} ${job.dag_ids[0]}`, to: pathOf(job) }))),
    ),
  );

const Filters = ({ change, parameters }) => {
  const [typed, setTyped] = useState(parameters.search ?? "");
  useEffect(() => {
    const timer = setTimeout(() => typed !== (parameters.search ?? "") && change({ search: typed }), TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  return h(
    "form.bf-filters",
    { onSubmit: (event) => event.preventDefault(), role: "search" },
    h("input.bf-input", {
      "aria-label": "Search by name",
      onChange: (event) => setTyped(event.target.value),
      placeholder: "Search by name",
      type: "search",
      value: typed,
    }),
    h(
      "select.bf-input",
      { "aria-label": "State", onChange: (event) => change({ state: event.target.value }), value: parameters.state ?? "" },
      h("option", { value: "" }, "All states"),
      ...FILTERS.map((state) => h("option", { key: state, value: state }, STATES[state])),
    ),
    h(
      "label.bf-check",
      h("input", {
        checked: parameters.warnings === "true",
        onChange: (event) => change({ warnings: event.target.checked ? "true" : "" }),
        type: "checkbox",
      }),
      "With warnings",
    ),
  );
};

const Pages = ({ change, offset, total }) =>
  total > PAGE &&
  h(
    "nav.bf-buttons",
    { "aria-label": "Pages" },
    h("button.bf-button", { disabled: offset === 0, onClick: () => change({ offset: Math.max(offset - PAGE, 0) }), type: "button" }, "Previous"),
    h("span.bf-muted", `${count(offset + 1)} to ${count(Math.min(offset + PAGE, total))} of ${count(total)}`),
    h("button.bf-button", { disabled: offset + PAGE >= total, onClick: () => change({ offset: offset + PAGE }), type: "button" }, "Next"),
  );

const Empty = ({ filtered }) =>
  h(
    "div.bf-empty",
    h("h3", filtered ? "No backfill matches" : "No backfills yet"),
    h(
      "p",
      filtered
        ? "Change the filters to see others."
        : "A backfill appears here once its DAG is parsed, such as one made with backfill_dag, or once a DAG run creates its job.",
    ),
  );

export const JobListPage = ({ root }) => {
  useClock();
  const [search, setSearch] = useSearchParams();
  const parameters = Object.fromEntries(search);
  const offset = Number(parameters.offset ?? 0);
  const filtered = Boolean(parameters.search || parameters.state || parameters.warnings);
  const { data, error } = usePolling("jobs", { ...parameters, limit: PAGE });
  const change = (changes) =>
    setSearch(
      (old) => {
        const next = { ...Object.fromEntries(old), offset: "", ...changes };
        return Object.fromEntries(Object.entries(next).filter(([, value]) => value !== ""));
      },
      { replace: true },
    );
  return h(
    Fragment,
    h("header.bf-header", h("h2", "Backfills"), h(Filters, { change, parameters })),
    data && h(Stale, { error }),
    !data && h(Placeholder, { error }),
    data?.unread > 0 && h("p.bf-muted", { role: "status" }, `${count(data.unread)} more are being read for the first time…`),
    data && (data.jobs.length ? h(JobTable, { jobs: data.jobs, pathOf: (job) => `${root}/${job.dag_ids[0]}/${job.name}` }) : !data.unread && h(Empty, { filtered })),
    data && h(Pages, { change, offset, total: data.total }),
  );
};
