// Asks why the view has a row, or has not.

import { jobPath, read } from "./api.js";
import { Notice } from "./components.js";
import { h, useState } from "./react.js";

export const WhyPanel = ({ dagId, name }) => {
  const [key, setKey] = useState("");
  const [answer, setAnswer] = useState(null);
  const ask = async (event) => {
    event.preventDefault();
    setAnswer({ lines: ["Looking…"] });
    try {
      setAnswer(await read(`${jobPath(dagId, name)}/why`, { key }));
    } catch (error) {
      setAnswer({ error: error.message });
    }
  };
  return h(
    "section.bf-panel",
    { "aria-label": "Why a row is there, or not" },
    h("h3", "Why a row is there, or not"),
    h(
      "form",
      { onSubmit: ask },
      h(
        "label",
        "Key ",
        h("input", {
          maxLength: 2000,
          onChange: (event) => setKey(event.target.value),
          placeholder: "4711, or a JSON list of several columns",
          required: true,
          value: key,
        }),
      ),
      " ",
      h("button.bf-button", { type: "submit" }, "Ask"),
    ),
    answer?.error && h(Notice, { kind: "error", title: "There is no answer here" }, answer.error),
    answer?.lines && h("ul", { "aria-live": "polite" }, ...answer.lines.map((line, number) => h("li", { key: number }, line))),
  );
};
