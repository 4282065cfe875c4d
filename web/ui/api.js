// Requests to the server this page came from: with the API key, which lives in this module and nowhere else, and with
// errors that say what the server said.
import {frames} from "./sse.js";

let key = "";
let askForKey = async () => null; // set by main.js: resolves to a key, or null when there is none
let asking = null;
let declined = false; // the user closed the question: it comes again only for what the user does

/** Tells the window, with a `keychange` event. */
export function setKey(value) {
  key = value.trim();
  declined = false;
  dispatchEvent(new Event("keychange"));
}
export function hasKey() { return key !== ""; }
export function onKeyWanted(call) { askForKey = call; }

export class ApiError extends Error {
  constructor(message, {status = 0, code = "", requestId = "", retryAfter = 0} = {}) {
    super(message);
    Object.assign(this, {status, code, requestId, retryAfter});
  }
}

/** The error that a server's `error` member describes. */
export function errorFrom(error, facts = {}) {
  const text = typeof error === "string" ? error : error?.message;
  return new ApiError(
      typeof text === "string" && text ? text : `The server answered with status ${facts.status ?? "unknown"}.`,
      {...facts, code: String(error?.code ?? error?.type ?? "")});
}

async function failure(response) {
  let body = null;
  try {
    body = await response.json();
  } catch { /* a proxy's page, perhaps */
  }
  return errorFrom(body?.error, {
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? "",
    retryAfter: Number(response.headers.get("retry-after")) || 0
  });
}

async function once(path, options) {
  const headers = {...options.headers};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (options.json !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(new URL(path, document.baseURI), {
      method: options.json === undefined ? "GET" : "POST",
      headers,
      signal: options.signal,
      body: options.json === undefined ? undefined : JSON.stringify(options.json),
      cache: "no-store",
      credentials: "omit",
      redirect: "error"
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?");
  }
}

/**
 * A response with status 2xx. On 401 it asks for a key: always when `byUser`, else unless the user said no before.
 * Throws ApiError.
 */
export async function request(path, options = {}) {
  for (;;) {
    const used = key;
    const response = await once(path, options);
    if (response.ok) return response;
    if (response.status !== 401 || (declined && !options.byUser)) throw await failure(response);
    if (used === key) { // one question, however many requests want its answer
      asking ??= askForKey(used !== "").finally(() => {
        asking = null;
      });
      const answer = await asking;
      if (answer === null) {
        declined = true;
        throw await failure(response);
      }
      if (used === key) setKey(answer);
    }
  }
}

export async function json(path, options) { return (await request(path, options)).json(); }

/**
 * The JSON of each frame, up to [DONE] or the end. `options.onBytes` is called whenever something comes, comments too.
 */
export async function* stream(path, options) {
  const response = await request(path, options);
  if (!(response.headers.get("content-type") ?? "").includes("text/event-stream"))
    throw new ApiError("The server did not answer with a stream.");
  for await (const data of frames(response.body, options.onBytes)) {
    if (data === "[DONE]") return;
    let value;
    try {
      value = JSON.parse(data);
    } catch { throw new ApiError("A frame of the stream is not JSON."); }
    yield value;
  }
}
