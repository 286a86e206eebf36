// The page of one job.

import { Actions } from "./actions.js";
import { jobPath } from "./api.js";
import { BarrierLog, Changes } from "./barrier_log.js";
import { CutOverPanel } from "./cut_over_panel.js";
import { EpochChart } from "./epoch_chart.js";
import { behind, behindRoot, chained, compact, count, duration, limitHint, percent, rateLimit, reason, rebuildReason, size, time } from "./format.js";
import { Badge, Differences, lag, Notice, Placeholder, Progress, Removed, Stale, verified, Warnings } from "./components.js";
import { useClock, usePolling } from "./polling.js";
import { Fragment, h, Link } from "./react.js";
import { SplitTable } from "./split_table.js";
import { UpstreamTable } from "./upstream_table.js";
import { VnodeMap } from "./vnode_map.js";
import { WhyPanel } from "./why_panel.js";

const Stat = ({ children, hint, label }) => h("div.bf-stat", { title: hint }, h("dt", label), h("dd", children));

const Stats = ({ summary }) => {
  const furthest = behind(summary);
  return h(
    "dl.bf-stats",
    h(
      Stat,
      { hint: "Rows read from the upstream, of all rows that it had when the newest barrier was pinned", label: "Rows read" },
      `${count(summary.rows_read)} of about ${count(summary.rows_estimated)}`,
    ),
    h(
      Stat,
      { hint: "Over the newest epochs", label: "Rate" },
      summary.rows_per_second === null ? "–" : `${compact(summary.rows_per_second)} rows/s`,
    ),
    h(Stat, { hint: "At this pace", label: "Time left" }, summary.finished ? "Done" : duration(summary.eta_seconds)),
    h(
      Stat,
      { hint: `The newest of ${furthest.name} is ${furthest.offset_name} ${furthest.latest_version}, the view is at ${furthest.version ?? "none"}`, label: "Lag" },
      lag(furthest),
    ),
    h(
      Stat,
      { label: "Epoch" },
      summary.pinned_epoch === null ? `${count(summary.epoch)} committed` : `${count(summary.pinned_epoch)} pinned, ${count(summary.epoch)} committed`,
    ),
    summary.kept_bytes !== null &&
      h(
        Stat,
        { hint: "The log that the database keeps for the job, and how much more it keeps before changes are lost", label: "Kept log" },
        size(summary.kept_bytes) + (summary.kept_bytes_left === null ? "" : `, ${size(summary.kept_bytes_left)} left`),
      ),
    h(
      Stat,
      { hint: "Until the upstream may delete changes that an epoch needs", label: "Headroom" },
      summary.headroom_hours === null ? "Needs no changes" : duration(summary.headroom_hours * 3600),
    ),
    h(
      Stat,
      { hint: "When the view was last compared with its query over the upstream, all rows and columns", label: "Verified" },
      verified(summary),
    ),
    h(Stat, { label: "Strategy" }, h("code", summary.strategy)),
    h(
      Stat,
      { hint: limitHint(summary), label: "Rate limit" },
      rateLimit(summary),
    ),
    summary.max_rows_per_second !== null &&
      h(
        Stat,
        { hint: "The most rows of history per second, averaged over a run of several epochs", label: "Pace" },
        `${count(summary.max_rows_per_second)} rows/s`,
      ),
    h(Stat, { hint: "The number of task runs that share an epoch, from the next barrier on", label: "Parallel task runs" }, count(summary.parallelism)),
  );
};

const Rebuild = ({ rebuild }) =>
  rebuild &&
  h(
    "section.bf-panel",
    { "aria-label": "Rebuild" },
    h(
      "p.bf-headline",
      h("strong", percent(rebuild.progress)),
      h("span", { "aria-live": "polite" }, rebuildReason(rebuild)),
    ),
    h(Progress, { name: "the rebuild", summary: rebuild }),
    h(
      "p.bf-muted",
      `${count(rebuild.rows_read)} of about ${count(rebuild.rows_estimated)} rows read, epoch ${count(rebuild.epoch)}. `,
      "The view stays as it is until the rebuild takes its place. Pause, resume, rate limit and parallel task runs act on the rebuild.",
    ),
    h(Warnings, { warnings: rebuild.warnings }),
  );

const Chain = ({ summary }) =>
  summary.chain.length > 0 &&
  h(
    "p.bf-muted",
    { title: "Each view is the upstream of the next job" },
    `Chain: ${[...chained(summary.chain), summary.name].join(" → ")}.${behindRoot(summary)}`,
  );

const Definition = ({ job }) =>
  h(
    "details.bf-panel",
    h("summary", "Definition"),
    h("pre", { tabIndex: 0 }, h("code", JSON.stringify(job.definition, null, 2))),
    job.state_location && h("p.bf-muted", "Control tables: ", h("code", job.state_location)),
  );

const Header = ({ back, dagId, job, onDone }) =>
  h(
    "header.bf-header",
    h(
      "div",
      back && h(Link, { className: "bf-back", to: back }, "← All backfills"),
      h("h2", job.name, " ", h(Badge, { job })),
      h(
        "p.bf-links",
        h(Link, { to: `/dags/${encodeURIComponent(dagId)}` }, dagId),
        " · ",
        h(Link, { to: `/dags/${encodeURIComponent(dagId)}/runs` }, "DAG runs"),
        job.definition.materialized_view && h("span.bf-muted", " · view ", h("code", job.definition.materialized_view)),
      ),
    ),
    h(Actions, { dagId, job, onDone }),
  );

const Body = ({ dagId, job, onDone, version }) =>
  h(
    Fragment,
    h(
      "section.bf-panel",
      { "aria-label": "Progress" },
      h(
        "p.bf-headline",
        h("strong", percent(job.summary.progress)),
        h("span", { "aria-live": "polite" }, reason(job)),
      ),
      h(Progress, { name: job.name, summary: job.summary }),
      h(Stats, { summary: job.summary }),
      job.summary.watermark && h("p.bf-muted", `The view shows the upstream as of ${time(job.summary.watermark)}.`),
      h(Chain, { summary: job.summary }),
    ),
    h(Rebuild, { rebuild: job.summary.rebuild }),
    job.summary.cut_over && h(CutOverPanel, { dagId, job, onDone }),
    h(Warnings, { warnings: job.summary.warnings }),
    h(Differences, { found: job.summary.verified }),
    h(Removed, { found: job.summary.verified }),
    h(
      "div.bf-columns",
      h(VnodeMap, {
        byVnode: !job.shared_position,
        cells: job.cells,
        counts: job.summary.vnodes,
        progress: job.summary.progress,
      }),
      h(EpochChart, { epochs: job.epochs }),
    ),
    h(UpstreamTable, { upstreams: job.summary.upstreams }),
    h(SplitTable, { splits: job.splits }),
    h(WhyPanel, { dagId, name: job.name }),
    h(BarrierLog, { dagId, name: job.name, version }),
    h(Changes, { changes: job.changes }),
  );

export const JobPage = ({ back, dagId, name }) => {
  useClock();
  const { again, data: job, error } = usePolling(jobPath(dagId, name));
  if (!job) {
    return h(Fragment, back && h(Link, { className: "bf-back", to: back }, "← All backfills"), h(Placeholder, { error }));
  }
  return h(
    Fragment,
    h(Stale, { error }),
    h(Header, { back, dagId, job, onDone: again }),
    job.summary
      ? h(Body, { dagId, job, onDone: again, version: job.etag })
      : h(Notice, { kind: job.problem ? "error" : "info", title: job.problem ? "Its tables cannot be read" : undefined }, reason(job)),
    h(Definition, { job }),
  );
};

