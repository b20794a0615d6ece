// What people read where the service speaks to programs: why sessions end, and what problems mean.

/** Why a live session ended, by EndReason. */
export const ENDS = {
  deleted: "The session was ended by somebody else.",
  peer_closed: "The connection to this browser was closed.",
  peer_lost: "The connection to this browser was lost.",
  connect_timeout: "The connection did not come about in time.",
  idle_ttl: "The session ended because nobody spoke for a while.",
  max_duration: "The session reached its longest duration.",
  drained: "The service is being updated. Start again.",
  failed: "Something failed in the service. Start again, and tell the operator if it comes back.",
};

const NO_MICROPHONE = {
  NotAllowedError: ["The browser did not allow the microphone.", "Allow it in the address bar", "A camera is never asked for."],
  NotReadableError: ["The microphone does not answer.", "Another program may be using it. Close that one", "A camera is not needed."],
  NotFoundError: ["No microphone was found.", "Connect one", "A camera is not needed."],
};

/** Title and text for what getUserMedia() throws; `instead` is what else a person can do. */
export function noMicrophone(error, instead = "choose a file instead") {
  const [title, remedy, camera] = NO_MICROPHONE[error.name] ?? NO_MICROPHONE.NotFoundError;
  return { title, text: `${remedy}${instead ? `, or ${instead}` : ""}. ${camera}` };
}

const LOST = "Start a new one.";

/** By code of a problem: words that take the place of its own. */
const SAID = {
  session_not_found: { text: LOST },
  session_lost: { text: LOST },
  wrong_drive: { text: "It listens to a microphone, so it takes no text and no files." },
  voice_missing: { text: "Choose an audio file, or ask the operator for a voice." },
  voice_failed: { text: "Try other words, in English, or choose an audio file." },
  no_common_codec: { title: "This browser cannot show the picture.", text: "It takes no H.264 video. Another browser may." },
  avatar_not_found: { text: "It was removed. Choose another one." },
  avatars_full: { text: "Use one of those that are there, or remove one that nobody needs." },
  upload_too_slow: { text: "It stopped on its way, or took too long. Try again." },
  internal_error: { text: "The fault lies with the service. Tell the operator the number of the request if it comes back." },
};

/** Text as a sentence: it begins with a capital letter and ends with a stop. */
export function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "";
}

const sizes = (text) => text.replace(/\b(\d{6,}) bytes/g, (_, count) => `${(count / 1e6).toFixed(1)} MB`);

/** Fields that a person sets on these pages, where the words about them do not show which one is meant. */
const NAMED = { seed: "The seed", fps: "Frames per second", chunk_frames: "Frames per piece", name: "The name", prompt: "The text", text: "The text" };

function ownWords(found) {
  const detail = String(found.detail ?? "");
  if (!found.field) return sentence(detail);
  const prefix = `${found.field}: `;
  const said = (detail.startsWith(prefix) ? detail.slice(prefix.length) : detail).replace(/\s*\(allowed: .*\)$/s, "");
  const named = NAMED[found.field] ? `${NAMED[found.field]}: ${said}` : said;
  return sizes(`${sentence(named)}${found.allowed ? ` Accepted: ${found.allowed}.` : ""}`.trim());
}

/** Title and text of an RFC 9457 document; `found` is empty where something between here and the service answered. */
export function wordsOf(found, status, retryAfter) {
  const { title, text } = SAID[found.code] ?? {};
  return { title: title ?? `${found.title ?? `The service answered ${status}`}.`, text: text ?? textOf(found, status, retryAfter) };
}

function textOf(found, status, retryAfter) {
  if (found.code === "session_ended") return ENDS[found.reason] ?? LOST;
  if (found.code === "weights_download") return sentence(found.detail);
  if (status === 503) {
    const why = found.code === "no_capacity" ? "All places are taken, perhaps by another tab or window of this browser. " : "";
    return `${why}Try again in ${found.retry_after_s ?? retryAfter ?? "a few"} seconds.`;
  }
  if (!found.title && status >= 500) return "Try again a little later.";
  return ownWords(found);
}
