// A dialog that asks before an action. It is a native dialog, which traps the focus and gives it back.

import { Notice } from "./components.js";
import { h, useEffect, useId, useRef, useState } from "./react.js";

/**
 * `act` does the action and may fail; `onClose` is called when the dialog is done.
 * The children are the fields; `missing` says what is left to fill in, and is empty if nothing is.
 */
export const Dialog = ({ act, children, danger, label, missing = "", onClose, title }) => {
  const dialog = useRef(null);
  const heading = useId();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);

  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);

  const submit = async (event) => {
    event.preventDefault();
    if (busy || missing) {
      return;
    }
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };

  return h(
    "dialog.bf-dialog",
    {
      "aria-labelledby": heading,
      onCancel: (event) => {
        event.preventDefault();
        onClose();
      },
      // Airflow's own shortcuts must not act while the dialog is open.
      onKeyDown: (event) => event.stopPropagation(),
      ref: dialog,
    },
    h(
      "form",
      { onSubmit: submit },
      h("h3", { id: heading }, title),
      children,
      h("p.bf-missing", { "aria-live": "polite", id: `${heading}m` }, missing),
      error && h(Notice, { kind: "error", title: "Refused" }, error.message),
      h(
        "div.bf-buttons",
        h("button.bf-button", { onClick: onClose, type: "button" }, "Back"),
        h(
          "button.bf-button.bf-primary",
          {
            "aria-busy": busy,
            "aria-describedby": `${heading}m`,
            className: danger ? "bf-danger" : "",
            disabled: Boolean(missing) || busy,
            title: missing || undefined,
            type: "submit",
          },
          label,
        ),
      ),
    ),
  );
};

export const Field = ({ help, label, ...input }) => {
  const id = useId();
  return h(
    "div.bf-field",
    h("label", { htmlFor: id }, label),
    h("input.bf-input", { "aria-describedby": help ? `${id}h` : undefined, autoComplete: "off", id, ...input }),
    help && h("small.bf-muted", { id: `${id}h` }, help),
  );
};
