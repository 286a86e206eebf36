// The client of the API. Airflow may be served under a path, which is part of the page's base URI.

const BASE = new URL("backfill/api/", document.baseURI);

/** The server refused a request. */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const dagPath = (dagId) => `dags/${encodeURIComponent(dagId)}/jobs`;
export const jobPath = (dagId, name) => `${dagPath(dagId)}/${encodeURIComponent(name)}`;

/**
 * Read a path; `known` is an earlier answer to the same request.
 * Return that same object if nothing has changed, so that React does not render again.
 */
export const read = async (path, parameters, known, signal) => {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) {
      url.searchParams.set(name, value);
    }
  }
  const headers = known?.etag ? { "If-None-Match": known.etag } : {};
  // The browser's own cache would turn a 304 into a 200.
  const response = await fetch(url, { cache: "no-store", headers, signal });
  if (response.status === 304) {
    return known;
  }
  return { ...(await answer(response)), etag: response.headers.get("ETag") };
};

export const post = async (path, body) =>
  answer(
    await fetch(new URL(path, BASE), {
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
      method: "POST",
    }),
  );

const answer = async (response) => {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new RequestError(response.status, message(response.status, body.detail));
  }
  return body;
};

const message = (status, detail) => {
  if (Array.isArray(detail)) {
    return detail.map((problem) => problem.msg).join("; ");
  }
  if (status === 401) {
    return "You are signed out. Reload the page to sign in again.";
  }
  if (status === 403) {
    return "You don't have the right to do this.";
  }
  return typeof detail === "string" ? detail : `The server answered with status ${status}.`;
};
