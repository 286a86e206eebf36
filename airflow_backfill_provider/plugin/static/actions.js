// The buttons that mutate a job, and their dialogs.

import { jobPath, post } from "./api.js";
import { Dialog, Field } from "./dialog.js";
import { count, rateLimit } from "./format.js";
import { Fragment, h, useState } from "./react.js";

/** What the actions on reading history act on: the rebuild, if one grows beside the view. */
const steered = (job) => job.summary.rebuild ?? job.summary;

const Confirm = ({ children, label, title, verb, ...dialog }) =>
  h(Dialog, { ...dialog, act: () => dialog.act(verb, {}), label, title }, h("p", children));

const Pause = (props) =>
  h(
    Confirm,
    { ...props, label: "Pause", title: `Pause ${props.job.name}?`, verb: "pause" },
    "From the next epoch on, no history is read. Changes of rows that were read are still applied, so the view stays right.",
  );

const Resume = (props) =>
  h(
    Confirm,
    { ...props, label: "Resume", title: `Resume ${props.job.name}?`, verb: "resume" },
    "From the next epoch on, history is read again",
    steered(props.job).rate_limit === 0 ? ", once the rate limit is above 0." : ".",
  );

const Check = ({ checked, label, onChange }) =>
  h("label.bf-check", h("input", { checked, onChange: (event) => onChange(event.target.checked), type: "checkbox" }), label);

const Throttle = ({ act, job, onClose }) => {
  const { max_rows_per_second: pace, rate_limit: limit, target_epoch_seconds: target } = steered(job);
  const [mode, setMode] = useState(limit === null ? "unlimited" : limit === "auto" ? "auto" : "rows");
  const [rows, setRows] = useState(typeof limit === "number" ? String(limit) : "");
  const [seconds, setSeconds] = useState(String(target ?? 60));
  const [most, setMost] = useState(pace === null ? "" : String(pace));
  const asked = { auto: "auto", rows: Number(rows), unlimited: null }[mode];
  const missing =
    (mode === "rows" && !/^\d+$/.test(rows) && "Enter the rows per epoch as a whole number, or tick one of the boxes.") ||
    (mode === "auto" && !(Number(seconds) > 0) && "Enter the seconds that an epoch should take, more than 0.") ||
    (!/^([1-9]\d*)?$/.test(most) && "Enter the rows per second as a whole number above 0, or leave the field empty.") ||
    "";
  return h(
    Dialog,
    {
      act: () =>
        act("throttle", {
          max_rows_per_second: most === "" ? null : Number(most),
          rate_limit: asked,
          target_epoch_seconds: mode === "auto" ? Number(seconds) : null,
        }),
      label: "Set rate limit",
      missing,
      onClose,
      title: `Throttle ${job.name}`,
    },
    h("p", `Takes effect with the next epoch. Now: ${rateLimit(steered(job))}.`),
    h(Field, {
      disabled: mode !== "rows",
      help: "0 reads no history, but still applies changes.",
      inputMode: "numeric",
      label: "Rows per epoch, at most",
      onChange: (event) => setRows(event.target.value.trim()),
      value: mode === "rows" ? rows : "",
    }),
    h(Check, { checked: mode === "unlimited", label: "No limit", onChange: (on) => setMode(on ? "unlimited" : "rows") }),
    h(Check, { checked: mode === "auto", label: "By the measured speed", onChange: (on) => setMode(on ? "auto" : "rows") }),
    mode === "auto" &&
      h(Field, {
        inputMode: "decimal",
        label: "Seconds that an epoch should take",
        onChange: (event) => setSeconds(event.target.value.trim()),
        value: seconds,
      }),
    h(Field, {
      help: "Averaged over a run of several epochs. Empty is unlimited.",
      inputMode: "numeric",
      label: "Rows per second, at most",
      onChange: (event) => setMost(event.target.value.trim()),
      value: most,
    }),
  );
};

const Rescale = ({ act, job, onClose }) => {
  const [parallelism, setParallelism] = useState(String(steered(job).parallelism));
  return h(
    Dialog,
    {
      act: () => act("rescale", { parallelism: Number(parallelism) }),
      label: "Rescale",
      missing: /^[1-9]\d*$/.test(parallelism) ? "" : "Enter the number of task runs, 1 or more.",
      onClose,
      title: `Rescale ${job.name}`,
    },
    h("p", `The number of task runs that share an epoch, from the next epoch on. Now: ${steered(job).parallelism}.`),
    h(Field, {
      inputMode: "numeric",
      label: "Parallel task runs",
      onChange: (event) => setParallelism(event.target.value.trim()),
      value: parallelism,
    }),
  );
};

const Verify = (props) =>
  h(
    Confirm,
    { ...props, label: "Verify", title: `Verify ${props.job.name}?`, verb: "verify" },
    "After its commit, the next epoch compares all rows and columns of the view with its query over the upstream. The result will appear here.",
  );

const Repair = (props) =>
  h(
    Confirm,
    { ...props, label: "Repair what differs", title: `Repair what differs in ${props.job.name}?`, verb: "repair" },
    `The next epoch rewrites only the rows that differed in the verification of epoch ${count(props.job.summary.verified.epoch)}. Then the view is verified again.`,
  );

const Cancel = ({ act, job, onClose }) => {
  const [typed, setTyped] = useState("");
  return h(
    Dialog,
    {
      act: () => act("cancel", {}),
      danger: true,
      label: "Cancel the job for good",
      missing: typed === job.name ? "" : `Type the job's name, ${job.name}, to confirm.`,
      onClose,
      title: `Cancel ${job.name}?`,
    },
    h("p", "No further epoch will run, so changes will no longer be applied. This cannot be undone; only a rebuild starts over, from the beginning."),
    h(Field, { label: `Type ${job.name} to confirm`, onChange: (event) => setTyped(event.target.value), value: typed }),
  );
};

const ACTIONS = [
  ["Pause", Pause, (job) => !steered(job).paused && !steered(job).finished],
  ["Resume", Resume, (job) => steered(job).paused],
  ["Throttle", Throttle, () => true],
  ["Rescale", Rescale, () => true],
  ["Verify", Verify, (job) => !job.summary.verification_waits],
  ["Repair what differs", Repair, (job) => job.summary.verified && !job.summary.verified.equal],
  ["Cancel", Cancel, () => true],
];

export const Actions = ({ dagId, job, onDone }) => {
  const [open, setOpen] = useState(null);
  if (!job.summary || job.state === "cancelled") {
    return null;
  }
  if (!job.may_act) {
    return h("p.bf-muted", `You may look at this job, but not change it. To change it, you need the right to run ${dagId}.`);
  }
  const Asked = ACTIONS.find(([label]) => label === open)?.[1];
  const act = async (verb, body) => {
    await post(`${jobPath(dagId, job.name)}/${verb}`, body);
    onDone();
  };
  return h(
    Fragment,
    h(
      "div.bf-buttons",
      { "aria-label": "Change the job", role: "group" },
      ...ACTIONS.filter(([, , applies]) => applies(job)).map(([label]) =>
        h(
          "button.bf-button",
          { className: label === "Cancel" ? "bf-danger" : "", key: label, onClick: () => setOpen(label), type: "button" },
          label,
        ),
      ),
    ),
    Asked && h(Asked, { act, job, onClose: () => setOpen(null) }),
  );
};
