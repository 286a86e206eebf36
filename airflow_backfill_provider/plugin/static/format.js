// Formats numbers, times and states.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : short.format(value));

/** The rate limit of a job in words; `auto` with the number of rows that it has chosen. */
export const rateLimit = ({ effective_rate_limit: rows, rate_limit: limit }) => {
  const number = rows === null ? "" : `${count(rows)} rows an epoch`;
  return limit === "auto" ? `Auto${number && `: ${number}`}` : number || "None";
};

/** Why the rate limit is what it is. */
export const limitHint = ({ rate_limit_reason: why }) =>
  `The most rows of history that an epoch reads${why ? `, ${why}` : ""}`;

export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

const BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const size = (bytes) => {
  const unit = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), BYTE_UNITS.length - 1);
  return `${unit ? (bytes / 1024 ** unit).toFixed(1) : bytes} ${BYTE_UNITS[unit]}`;
};

/** A distance of two offsets: a number of versions, or bytes of a database's log. */
export const distance = (value, unit) => (unit === "byte" ? size(value) : plural(value, unit));

/** How far a view is behind its upstream; of several, behind the one that it is furthest behind. */
export const behind = (summary) => {
  const found = summary.upstreams?.[summary.furthest_behind];
  return found
    ? { ...found, name: summary.furthest_behind, upstream_answers: found.answers }
    : { ...summary, latest_version: summary.upstream_latest_version, name: "the upstream", version: summary.upstream_version };
};

/** The jobs of a chain, each with its progress if its view is not finished. */
export const chained = (jobs) =>
  jobs.map((job) => (job.finished || job.progress === null ? job.name : `${job.name} (${percent(job.progress)})`));

/** How far a view is behind the first upstream of a chain, in a sentence; empty if that is unknown. */
export const behindRoot = ({ root_lag_seconds: lag }) => {
  if (lag === null) {
    return "";
  }
  return lag ? ` At most ${duration(lag)} behind the chain's first upstream.` : " As new as the chain's first upstream.";
};

/** A share as a percentage, which is 100 % only at the end. */
export const percent = (share) => (share >= 1 ? "100 %" : `${(Math.floor(share * 1000) / 10).toFixed(1)} %`);

export const duration = (seconds) => {
  if (seconds === null || seconds === undefined) {
    return "–";
  }
  if (seconds < 10) {
    return `${Number(seconds.toFixed(1))} s`;
  }
  const units = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const first = Math.max(units.findIndex(([, size]) => seconds >= size), 0);
  let rest = Math.round(seconds);
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const amount = Math.floor(rest / size);
      rest -= amount * size;
      return amount ? `${amount} ${unit}` : "";
    })
    .filter(Boolean)
    .join(" ");
};

export const since = (instant, now = Date.now()) => Math.max((now - Date.parse(instant)) / 1000, 0);

export const time = (instant) => {
  const date = new Date(instant);
  const today = date.toDateString() === new Date().toDateString();
  const clock = { hour: "2-digit", hourCycle: "h23", minute: "2-digit", second: "2-digit" };
  const day = { day: "2-digit", month: "short", year: "numeric" };
  return new Intl.DateTimeFormat("en-GB", today ? clock : { ...day, ...clock }).format(date);
};

export const STATES = {
  running: "Running",
  waiting: "Waiting for a DAG run",
  paused: "Paused",
  ready: "Ready, waits for approval",
  finished: "Finished",
  cancelled: "Cancelled",
  not_created: "Not created yet",
  unreadable: "Cannot be read",
  unread: "Being read…",
};

/** The name of a job's state. An epoch may also run on a finished view, to apply changes. */
export const stateName = ({ state, summary }) =>
  state === "finished" && summary.pinned_epoch !== null ? "Finished, epoch running" : STATES[state];

/** What the pinned epoch does, in a sentence. */
const pinned = ({ pinned_at: at, pinned_epoch: epoch }) =>
  `Epoch ${epoch} was pinned ${duration(since(at))} ago and is not committed yet: it is running, or waits for a retry.`;

/** The reason of a job's state, in a sentence or two. */
export const reason = (job) => {
  const { state, summary } = job;
  const standing = reasonOfState(job);
  return summary && summary.pinned_epoch !== null && state !== "running" ? `${standing} ${pinned(summary)}` : standing;
};

const finished = (summary) => {
  const { lag_unit: unit, lag_versions: lag, name, upstream_answers: answers } = behind(summary);
  if (!answers) {
    return `Finished. It is unknown how far the view is behind ${name}, which does not answer.`;
  }
  if (!lag) {
    return "Finished and up to date.";
  }
  return (
    `Finished, ${distance(lag, unit)} behind ${name}.` +
    (summary.pinned_epoch === null ? " The next DAG run applies its changes." : "")
  );
};

const reasonOfState = ({ problem, state, summary, waits_for }) => {
  switch (state) {
    case "not_created":
      if (waits_for) {
        return `It ${waits_for}. A DAG run creates it once that view is finished.`;
      }
      return "The first task of a DAG run creates it. Trigger the DAG, unless a DAG run has started.";
    case "unreadable":
      return problem;
    case "unread":
      return "Its tables are being read for the first time.";
    case "cancelled":
      return summary.pinned_epoch === null
        ? "Cancelled: no further epoch runs, and the view stays as the last epoch left it. A rebuild starts over."
        : "Cancelled: only the pinned epoch is still completed. A rebuild starts over.";
    case "finished":
      return finished(summary);
    case "ready":
      return "Ready: all rows are read and kept fresh, and the view is not marked as finished until somebody approves it.";
    case "paused":
      return summary.condition === "paused"
        ? "Paused: epochs read no history, but still apply changes."
        : "The rate limit is 0: epochs read no history, but still apply changes.";
    case "running":
      return pinned(summary);
    default:
      return "No epoch is running. The next DAG run continues.";
  }
};

/** What a rebuild beside the view does, in a sentence. */
export const rebuildReason = (rebuild) => {
  if (rebuild.condition === "ready") {
    return "The rebuild is ready, is kept fresh, and waits for an approval.";
  }
  if (rebuild.finished) {
    return "The rebuild is finished, and takes the view's place with the next epoch.";
  }
  if (rebuild.paused || rebuild.rate_limit === 0) {
    return `The rebuild ${rebuild.paused ? "is paused" : "has rate limit 0"}, and reads no history.`;
  }
  const left = rebuild.eta_seconds === null ? "" : ` About ${duration(rebuild.eta_seconds)} left.`;
  return `A rebuild grows beside the view.${left}`;
};

const CUT_OVERS = { backfill: "The backfill", change: "The changed query", rebuild: "The rebuild" };

/** What waits for an approval, since when, and until when. */
export const cutOverReason = ({ given_up_at: until, kind, ready_since: begun }) =>
  `${CUT_OVERS[kind]} is ready since ${time(begun)}.` +
  (until ? ` If nobody approves it, it is given up ${time(until)}.` : "");

export const MUTATIONS = {
  create: () => "Created",
  pause: () => "Paused",
  resume: () => "Resumed",
  throttle: (value) => (value === null ? "Rate limit removed" : `Rate limit ${value === "auto" ? value : count(value)}`),
  rescale: (value) => `Rescaled to ${plural(value, "task run")}`,
  repair: () => "Repair",
  cancel: () => "Cancelled",
  finish: () => "Finished",
  rebuild: () => "Rebuilt",
  grow_successor: () => "Rebuild begun beside the view",
  hand_over: () => "Rebuild took the view's place",
  revert: () => "Rebuild undone",
  found_equal: () => "Adopted rows found equal",
  change: () => "Query changed",
  propose_change: () => "Changed query waits for an approval",
  approve: () => "Approved",
  give_up_cut_over: () => "Given up without an approval",
};
