// The module that Airflow loads: the page with all backfills, and the tab with the backfills of a DAG, a DAG run or a
// task run. These are plain modules without a build step.

import { dagPath } from "./api.js";
import { JobListPage, JobTable } from "./job_list.js";
import { JobPage } from "./job_page.js";
import { Placeholder } from "./components.js";
import { usePolling } from "./polling.js";
import { Fragment, h, Link, useLocation, useSearchParams } from "./react.js";

const ROOT = "/plugin/backfills";

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = new URL("pages.css", import.meta.url).href;
document.head.append(style);

const Page = ({ children }) => h("div.bf-page", children);

const Backfills = () => {
  const [dagId, name] = useLocation().pathname.split(`${ROOT}/`)[1]?.split("/").map(decodeURIComponent) ?? [];
  return h(Page, name ? h(JobPage, { back: ROOT, dagId, key: `${dagId}/${name}`, name }) : h(JobListPage, { root: ROOT }));
};

const NoBackfill = () =>
  h(
    "div.bf-empty",
    h("h3", "This DAG has no backfill"),
    h("p", "Nothing is wrong. This tab shows the materialized views that a DAG backfills: those of a DAG made with ", h("code", "backfill_dag"), ", and those for which the DAG has run epochs."),
    h(Link, { to: ROOT }, "All backfills"),
  );

const Backfill = ({ dagId, mapIndex, runId, taskId }) => {
  const [search] = useSearchParams();
  const { data, error } = usePolling(dagPath(dagId), { map_index: mapIndex, run_id: runId, task_id: taskId });
  if (!data) {
    return h(Page, h(Placeholder, { error }));
  }
  const name = search.get("job") ?? (data.jobs.length === 1 ? data.jobs[0].name : null);
  return h(
    Page,
    runId &&
      !data.narrowed &&
      data.jobs.length > 0 &&
      h("p.bf-muted", { role: "status" }, `This ${taskId ? "task run" : "DAG run"} has committed no epoch (yet). These are the backfills of its DAG.`),
    data.jobs.length === 0 && h(NoBackfill),
    data.jobs.length > 0 &&
      (name
        ? h(
            Fragment,
            data.jobs.length > 1 && h(Link, { className: "bf-back", to: "?" }, "← All backfills of this DAG"),
            h(JobPage, { dagId, key: name, name }),
          )
        : h(JobTable, { jobs: data.jobs, pathOf: (job) => `?job=${job.name}` })),
  );
};

// Airflow finds the components by these names.
Object.assign(globalThis, { Backfill, Backfills });
