// The page of conversations: one session at a time, in which the client's voice is listened to.

import { byId, make, raiseProblem, show, showProblem } from "./dom.js";
import { Problem, asProblem } from "./api.js";
import { Connection, microphone } from "./connection.js";
import { Presenters } from "./presenters.js";
import { Retries } from "./retries.js";
import { Screen } from "./screen.js";
import { installTheme } from "./theme.js";
import { showVersion } from "./version.js";
import { ENDS, sentence } from "./words.js";

const WORDS = {
  connecting: "Connecting…", listening: "Listening: say something", hearing: "You speak…",
  thinking: "Thinking…", speaking: "Speaking: speak to interrupt", muted: "You are muted",
  stalled: "Nothing comes from the service. Waiting for it…",
};
const BADGES = { listening: "Listening", hearing: "You", thinking: "Thinking", speaking: "Speaking", muted: "Muted" };
const KEPT_LINES = 100;
const THINKING_MS = 90000; // an agent has its own, shorter deadlines
let connection = null;
let stream = null;
let ended = "";
let now = ""; // what happens in the conversation
let waits = 0; // timer of an answer that does not come
const lines = new Map(); // utterance -> line of the presenter's that was not heard yet

const retries = new Retries(() => start());
const screen = new Screen(() => retries.flows());
const presenters = new Presenters((one) => {
  if (one) screen.present(one, !connection);
});

const muted = () => byId("mute").getAttribute("aria-pressed") === "true";

function state(name) {
  now = name;
  clearTimeout(waits);
  if (name === "thinking") waits = setTimeout(() => state("listening"), THINKING_MS);
  const shown = name === "listening" && muted() ? "muted" : name;
  byId("state").textContent = WORDS[shown] ?? shown;
  screen.badge(BADGES[shown] ?? "", name === "speaking");
  byId("interrupt").disabled = !(connection?.id && (name === "speaking" || name === "thinking"));
}

function update() {
  const live = connection !== null;
  show(byId("start"), !live);
  for (const id of ["mute", "interrupt", "end"]) show(byId(id), live);
  show(byId("presenter-card"), !live);
  show(byId("words-card"), live || byId("words").childElementCount > 0);
}

async function start() {
  retries.begun();
  for (const id of ["talk-error", "presenter-error"]) showProblem(byId(id), null);
  ended = "";
  byId("mute").setAttribute("aria-pressed", "false");
  byId("mute").textContent = "Mute me";
  byId("words").replaceChildren();
  lines.clear();
  screen.wait();
  const mine = new Connection({ onEvent: happened, onEnd: (problem) => over(mine, problem), onTrack: (media) => screen.play(media) });
  connection = mine;
  state("connecting");
  update();
  byId("end").focus({ preventScroll: true });
  byId("screen").scrollIntoView({ block: "nearest" }); // whoever chose a presenter further down sees who speaks
  try {
    const voice = await microphone("");
    if (mine.over) return release(voice);
    stream = voice;
    const { chosen } = presenters;
    const avatarId = chosen && !chosen.is_default ? chosen.avatar_id : "";
    screen.shape(await mine.start({ drive: "talk", avatarId, fps: 25, echo: true, looks: {}, microphone: stream }));
  } catch (error) {
    mine.end(asProblem(error));
  }
}

function over(which, problem) {
  if (which !== connection) return;
  connection = null;
  release(stream);
  stream = null;
  screen.clear();
  state(ended || "Not connected");
  const wasFocused = ["end", "interrupt", "mute"].some((id) => document.activeElement === byId(id)) || document.activeElement === document.body;
  update();
  if (wasFocused) byId("start").focus({ preventScroll: true });
  if (retries.ended(problem)) return state("The connection was lost. Connecting again…");
  const box = problem?.field === "avatar_id" ? "presenter-error" : "talk-error";
  if (problem) raiseProblem(byId(box), problem, box === "talk-error" ? () => start() : undefined);
}

function release(voice) {
  voice?.getTracks().forEach((track) => track.stop());
}

/** One more line of the conversation. */
function line(words, className) {
  const one = make("li", { className }, words);
  byId("words").append(one);
  while (byId("words").childElementCount > KEPT_LINES) byId("words").firstChild.remove();
  byId("words").scrollTop = byId("words").scrollHeight; // the list scrolls, the picture stays
  return one;
}

function happened({ name, ...event }) {
  if (name === "stalled") byId("state").textContent = WORDS.stalled;
  if (name === "quality") screen.behind(event.detail);
  if (name === "resumed") state(now);
  if (name === "connected" || (name === "heard" && !event.detail)) state("listening");
  if (name === "turn_started") {
    showProblem(byId("talk-error"), null);
    state("hearing");
  }
  if (name === "turn_finished") state("thinking");
  if (name === "heard" && event.detail) line(event.detail, "mine");
  if (name === "reply") lines.set(event.utterance_id, line(event.detail, "unheard"));
  if (name === "speaking_started") {
    lines.get(event.utterance_id)?.classList.remove("unheard");
    lines.delete(event.utterance_id);
    if (now !== "hearing") state("speaking");
  }
  if (name === "speaking_finished" && now === "speaking" && lines.size === 0) state("listening");
  if (name === "interrupted") lines.clear(); // what waited stays as it is: it was not heard
  if (name === "error") {
    state("listening");
    showProblem(byId("talk-error"), new Problem({ title: "No answer came.", text: sentence(event.detail) }));
  }
  if (name === "ended") {
    const text = ENDS[event.detail];
    const fault = event.detail === "failed" ? new Problem({ title: "The session has ended.", text }) : null;
    ended = fault ? "" : text ?? "The session has ended.";
    connection?.end(fault);
  }
}

async function interrupt() {
  try {
    await connection.interrupt();
    if (now !== "hearing") state("listening");
  } catch (error) {
    if (error.name === "AbortError") return;
    raiseProblem(byId("talk-error"), asProblem(error));
  }
}

byId("setup").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!connection) start();
});
byId("end").addEventListener("click", () => connection?.end());
byId("interrupt").addEventListener("click", () => interrupt());
byId("mute").addEventListener("click", () => {
  const off = !muted();
  byId("mute").setAttribute("aria-pressed", String(off));
  byId("mute").textContent = off ? "Unmute me" : "Mute me";
  stream?.getAudioTracks().forEach((track) => { track.enabled = !off; });
  if (now === "listening") state(now);
});

installTheme();
update();
presenters.load();
showVersion();
