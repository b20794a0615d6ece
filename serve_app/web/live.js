// The live page: one session at a time.

import { acceptDrops, byId, clockText, raiseProblem, show, showProblem } from "./dom.js";
import { Problem, asProblem, getJson } from "./api.js";
import { CUT, Connection, microphone } from "./connection.js";
import { Expression } from "./expression.js";
import { Overlay } from "./overlay.js";
import { Presenters } from "./presenters.js";
import { showPicture } from "./session.js";
import { installTheme } from "./theme.js";
import { ENDS, sentence } from "./words.js";

const MAX_TRIES = 6; // at once, then after 1, 2, 4, 8 and 16 s
const STEADY_MS = 10000;
const WORDS = {
  connecting: "Connecting…", idle: "Listening", speaking: "Speaking",
  stalled: "Nothing comes from the service. Waiting for it…",
};
const BEHIND = {
  reduced: "The service is busy: the picture cannot keep up with the voice.",
  waiting: "The picture waits for a part of the service that is starting or has no room. The voice goes on.",
};
const picture = byId("picture");
let connection = null;
let stream = null;
let ended = "";
let speaking = null; // id of the utterance that is heard
let tries = 0; // to connect again by itself, since pictures last came for a while
let steady = 0; // timer of that while
let again = 0; // timer of the next one

const overlay = new Overlay(() => connection);
const presenters = new Presenters((one) => {
  const poster = byId("poster");
  if (!one) return;
  showPicture(poster, one.preview_url);
  poster.alt = `Presenter ${one.name}`;
  if (!connection) byId("screen").style.setProperty("--ratio", one.width / one.height);
  show(poster, picture.hidden);
});

const expression = new Expression(byId("expression-box"), (looks) => express(looks));

const drive = () => document.querySelector("input[name=drive]:checked").value;

function state(name) {
  byId("state").textContent = WORDS[name] ?? name;
  const badge = byId("badge");
  show(badge, name === "idle" || name === "speaking");
  badge.textContent = name === "speaking" ? "Speaking" : "Live";
  badge.classList.toggle("speaking", name === "speaking");
}

function update() {
  const live = connection !== null;
  const pushing = drive() === "push";
  show(byId("start"), !live);
  show(byId("end"), live);
  byId("interrupt").disabled = !connection?.id;
  byId("presenter-fields").disabled = byId("drive-fields").disabled = live;
  show(byId("push-box"), pushing);
  for (const id of ["audio", "text", "say"]) byId(id).disabled = !(live && connection.id && pushing);
  if (!live) byId("queue-text").textContent = pushing ? "Start first, then type or choose files." : "";
}

async function start() {
  clearTimeout(again);
  for (const id of ["live-error", "speech-error", "presenter-error"]) showProblem(byId(id), null);
  ended = "";
  speaking = null;
  show(byId("waiting"), true);
  state("connecting");
  const mine = new Connection({ onEvent: happened, onEnd: (problem) => over(mine, problem), onTrack: arrived });
  connection = mine;
  update();
  byId("end").focus();
  try {
    if (drive() === "mic") stream = await microphone();
    if (mine.over) return releaseMicrophone();
    const { chosen } = presenters;
    const answer = await mine.start({
      drive: drive(), avatarId: chosen && !chosen.is_default ? chosen.avatar_id : "",
      fps: byId("smooth").checked ? 50 : 25, echo: byId("echo").checked, looks: expression.wanted(), microphone: stream,
    });
    byId("screen").style.setProperty("--ratio", answer.width / answer.height);
    if (drive() === "push") byId("queue-text").textContent = "Nothing waits.";
    update();
    overlay.restart();
  } catch (error) {
    mine.end(asProblem(error));
  }
}

function over(which, problem) {
  if (which !== connection) return;
  connection = null;
  clearTimeout(steady);
  releaseMicrophone();
  picture.srcObject = null;
  show(picture, false);
  show(byId("poster"), true);
  show(byId("waiting"), false);
  show(byId("unmute"), false);
  show(byId("behind"), false);
  state(ended || "Not connected");
  overlay.restart();
  const wasFocused = [byId("end"), byId("interrupt"), document.body].includes(document.activeElement);
  update();
  if (wasFocused) byId("start").focus({ preventScroll: true });
  // After a loss the service may be starting again, or the session that was lost may still hold its place.
  const soon = tries > 0 && (problem?.status === 0 || problem?.status >= 500);
  if ((problem === CUT || soon) && tries < MAX_TRIES) {
    state("The connection was lost. Connecting again…");
    again = setTimeout(start, tries ? 500 * 2 ** tries : 0);
    tries += 1;
    return;
  }
  const box = { avatar_id: "presenter-error", audio: "speech-error" }[problem?.field] ?? "live-error";
  tries = 0;
  if (problem) raiseProblem(byId(box), problem, box === "live-error" ? () => start() : undefined);
}

function releaseMicrophone() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = null;
}

function arrived(media) {
  if (picture.srcObject !== media) picture.srcObject = media;
  picture.play().catch(() => {
    picture.muted = true; // a browser that allows sound only after a click
    show(byId("unmute"), true);
    picture.play().catch(() => {});
  });
}

function behind(quality) {
  byId("behind").textContent = BEHIND[quality] ?? "";
  show(byId("behind"), quality in BEHIND);
}

function happened({ name, ...event }) {
  if (name === "stalled") state("stalled");
  if (name === "quality") behind(event.detail);
  if (name === "connected" || name === "resumed") state(speaking === null ? "idle" : "speaking");
  if (name === "speaking_started") {
    speaking = event.utterance_id;
    state("speaking");
  }
  if (name === "speaking_finished" && event.utterance_id === speaking) { // others were waiting, and are dropped unheard
    speaking = null;
    state("idle");
    const how = event.interrupted ? "Interrupted" : "Finished";
    if (drive() === "push") byId("queue-text").textContent = `${how} after ${clockText(event.position_s)}.`;
  }
  if (name === "error" && event.utterance_id) { // a text that the voice could not say to its end
    raiseProblem(byId("speech-error"), new Problem({ title: "The text was not spoken.", text: sentence(event.detail) }));
  }
  if (name === "ended") {
    const text = ENDS[event.detail];
    const fault = event.detail === "failed" ? new Problem({ title: "The session has ended.", text }) : null;
    ended = fault ? "" : text ?? "The session has ended.";
    connection?.end(fault);
  }
}

/** Send a file or text; true where it was taken in. */
async function speak(speech) {
  if (!connection?.id) return false;
  const name = typeof speech === "string" ? "Text" : speech.name;
  showProblem(byId("speech-error"), null);
  byId("queue-text").textContent = `Sending ${name}…`;
  try {
    const spoken = await connection.speak(speech);
    const length = spoken.duration_s === null ? "taken in" : clockText(spoken.duration_s);
    const wait = spoken.queued_s > 0.5 ? `, after ${clockText(spoken.queued_s)} that wait` : "";
    byId("queue-text").textContent = `${name}: ${length}${wait}.`;
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false; // the session was ended meanwhile
    byId("queue-text").textContent = "";
    raiseProblem(byId("speech-error"), asProblem(error));
    return false;
  }
}

async function say() {
  const box = byId("text");
  const text = box.value.trim();
  if (!text) return;
  box.value = ""; // what is typed from here on is the next one
  if (!(await speak(text)) && !box.value) box.value = text;
}

async function express(looks) {
  if (!connection?.id) return;
  showProblem(byId("live-error"), null);
  try {
    await connection.express(looks);
  } catch (error) {
    if (error.name === "AbortError") return;
    raiseProblem(byId("live-error"), asProblem(error));
  }
}

async function interrupt() {
  try {
    await connection.interrupt();
  } catch (error) {
    if (error.name === "AbortError") return;
    raiseProblem(byId("live-error"), asProblem(error));
  }
}

picture.addEventListener("playing", () => {
  clearTimeout(steady);
  steady = setTimeout(() => { tries = 0; }, STEADY_MS);
  show(picture, true);
  show(byId("poster"), false);
  show(byId("waiting"), false);
});
byId("setup").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!connection) start();
});
byId("end").addEventListener("click", () => connection?.end());
byId("interrupt").addEventListener("click", () => interrupt());
byId("unmute").addEventListener("click", () => {
  picture.muted = false;
  show(byId("unmute"), false);
});
byId("audio").addEventListener("change", ({ target }) => {
  if (target.files.length) speak(target.files[0]);
  target.value = "";
});
acceptDrops(byId("speech-drop"), (file) => speak(file));
byId("say").addEventListener("click", () => say());
byId("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say();
});
for (const one of document.querySelectorAll("input[name=drive]")) one.addEventListener("change", update);

installTheme();
update();
presenters.load();
getJson("/version")
  .then((found) => { byId("version").textContent = `LiveAnchor ${found.version}`; })
  .catch((error) => { if (!(error instanceof Problem)) throw error; });
