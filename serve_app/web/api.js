// Talking to the service. Every error becomes a Problem with words for people.

import { signedFetch } from "./session.js";
import { wordsOf } from "./words.js";

export class Problem extends Error {
  constructor({ title, text = "", field = "", code = "", status = 0, reason, requestId = "" }) {
    super(title);
    Object.assign(this, { title, text, field, code, status, reason, requestId });
  }

  /** Whether the voice that speaks text is at fault. */
  get ofVoice() {
    return this.code.startsWith("voice_");
  }
}

const UNREACHABLE = new Problem({
  title: "The service cannot be reached.",
  text: "Check the connection and try again.",
});

/** The RFC 9457 document of an answer, in words. */
async function problemOf(response) {
  let found = {};
  try {
    found = (await response.json()) ?? {};
  } catch {
    found = {}; // a proxy's own page; the status is all there is
  }
  const requestId = found.request_id ?? response.headers.get("x-request-id") ?? "";
  const words = wordsOf(found, response.status, response.headers.get("retry-after"));
  return new Problem({ ...words, field: found.field ?? "", code: found.code ?? "", status: response.status, reason: found.reason, requestId });
}

/** fetch() that throws a Problem for every failure except an abort. */
export async function call(path, options = {}) {
  let response;
  try {
    response = await signedFetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw UNREACHABLE;
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

export const getJson = async (path, options) => (await call(path, options)).json();

/** 32 hexadecimal digits that nobody can guess. */
export function newRequestId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A Problem for anything that was thrown. */
export function asProblem(error) {
  if (error instanceof Problem) return error;
  if (error instanceof TypeError) return UNREACHABLE; // what a broken stream throws
  return new Problem({ title: "This page has a fault.", text: String(error.message ?? error) });
}
