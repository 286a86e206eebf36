// The upstreams of a job that has several: one row each.

import { lag } from "./components.js";
import { behindRoot, chained, duration, time } from "./format.js";
import { h } from "./react.js";

const Row = ({ name, upstream }) =>
  h(
    "tr",
    h("th", { scope: "row", title: upstream.location }, upstream.leads ? `${name} (leads)` : name),
    h("td", upstream.version === null ? "none yet" : `${upstream.offset_name} ${upstream.version}`),
    h("td", upstream.as_of === null ? "–" : time(upstream.as_of)),
    h("td", lag({ ...upstream, upstream_answers: upstream.answers })),
    h("td", upstream.headroom_hours === null ? "Needs no changes" : duration(upstream.headroom_hours * 3600)),
    h("td", upstream.chain.length ? `${chained(upstream.chain).join(" → ")}.${behindRoot(upstream)}` : "–"),
  );

export const UpstreamTable = ({ upstreams }) =>
  Object.keys(upstreams ?? {}).length > 0 &&
  h(
    "section.bf-panel",
    { "aria-label": "Upstreams" },
    h("h3", "Upstreams"),
    h(
      "div.bf-scroll",
      h(
        "table.bf-table",
        h(
          "thead",
          h("tr", ...["Table", "View at", "As of", "Lag", "Headroom", "View of"].map((title) => h("th", { key: title, scope: "col" }, title))),
        ),
        h("tbody", ...Object.entries(upstreams).map(([name, upstream]) => h(Row, { key: name, name, upstream }))),
      ),
    ),
  );
