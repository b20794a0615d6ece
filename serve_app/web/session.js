// The key of a service that needs one: asked for once, exchanged for a session token that ends soon and that this tab alone keeps.

import { make, show } from "./dom.js";

const KEPT = "session";
const SCOPES = ["generate", "live", "avatars"]; // what these pages do; never more, whatever the key allows
let session = kept(); // {token, renewAt}, or null
let asking = null;
let renewing = null;
const pictures = new Map(); // address -> promise of a blob's address

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null; // storage is off, or holds something else
  }
}

function keep(found) {
  session = { token: found.token, renewAt: Date.now() + found.expires_in_s * 500 };
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(session));
  } catch {
    return; // storage is off: the token lives as long as the page
  }
}

/** Whether a key or token was taken, and a newer token is here. */
async function exchange(credential) {
  try {
    const headers = { Authorization: `Bearer ${credential}`, "Content-Type": "application/json" };
    const response = await fetch("/auth/token", { method: "POST", headers, body: JSON.stringify({ scopes: SCOPES }) });
    if (response.ok) keep(await response.json());
    return response.ok;
  } catch {
    return false; // the service is away, or the text is nothing that a header can hold
  }
}

function renew() {
  renewing ??= exchange(session.token).finally(() => { renewing = null; });
  return renewing;
}

/** Ask the person for the key; true once one was taken. */
function ask() {
  asking ??= new Promise((resolve) => {
    const field = make("input", { type: "password", id: "key", autocomplete: "off", spellcheck: false, required: true });
    const wrong = make("p", { className: "alert", role: "alert", hidden: true }, "This key is not valid here, or the service is away.");
    const form = make("form", { noValidate: true },
      make("h2", { id: "key-title" }, "This service needs a key"),
      make("label", {}, "API key", field),
      make("p", { className: "hint" }, "The operator gives it to you. It is not kept: this tab works with a token that ends soon."),
      wrong,
      make("div", { className: "actions" }, make("button", { type: "submit", className: "primary" }, "Go on"), make("button", { type: "button", className: "link" }, "Not now")));
    const dialog = make("dialog", { className: "card key", "aria-labelledby": "key-title" }, form);
    let taken = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      taken = await exchange(field.value.trim());
      if (taken) dialog.close();
      else {
        show(wrong, true);
        field.select();
      }
    });
    form.querySelector(".link").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      asking = null;
      resolve(taken);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

const signed = (options) => (session ? { ...options, headers: { ...options.headers, Authorization: `Bearer ${session.token}` } } : options);

/** fetch() with the token of this tab; asks for the key where the service wants one. */
export async function signedFetch(path, options = {}) {
  if (session && Date.now() > session.renewAt) await renew();
  const response = await fetch(path, signed(options));
  if (response.status !== 401 || !(await ask())) return response;
  return fetch(path, signed(options));
}

/** Show a picture of the service; an <img> by itself sends no token. */
export function showPicture(image, path) {
  if (!session) {
    image.src = path;
    return;
  }
  if (!pictures.has(path)) pictures.set(path, signedFetch(path).then((answer) => answer.blob()).then((data) => URL.createObjectURL(data)));
  image.dataset.path = path; // another picture may be wanted before this one is here
  pictures.get(path).then((address) => { if (image.dataset.path === path) image.src = address; }, () => pictures.delete(path));
}
