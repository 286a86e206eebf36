// Airflow's own React and router, because two copies of React on one page don't work together.

const { React, ReactRouterDOM } = globalThis;

export const { Fragment, useCallback, useEffect, useId, useRef, useState } = React;
export const { Link, useLocation, useNavigate, useSearchParams } = ReactRouterDOM;

/** Return an element; `h("div.panel", …)` also sets its class. Attributes are optional. */
export const h = (type, ...rest) => {
  const [tag, ...classes] = typeof type === "string" ? type.split(".") : [type];
  const given = rest[0];
  const hasAttributes = given !== null && typeof given === "object" && !Array.isArray(given) && !React.isValidElement(given);
  const { className, ...attributes } = hasAttributes ? given : {};
  const all = [...classes, className].filter(Boolean).join(" ");
  return React.createElement(
    tag,
    all ? { ...attributes, className: all } : attributes,
    ...(hasAttributes ? rest.slice(1) : rest),
  );
};
