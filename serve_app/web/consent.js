// What the person agreed to whose face is added: asked for where the service needs it.

import { make } from "./dom.js";

const LONGEST = 1000; // the service takes 1 KiB; letters of other scripts take more, and are refused there in words

/** The statement that was given; null where the person thought better of it. */
export function askConsent() {
  return new Promise((resolve) => {
    const field = make("textarea", { id: "consent", rows: 4, maxLength: LONGEST, required: true });
    field.setAttribute("aria-describedby", "consent-hint");
    const form = make("form", {},
      make("h2", { id: "consent-title" }, "Has the person agreed?"),
      make("label", { htmlFor: "consent" }, "Who agreed that this face is animated, and for what"),
      field,
      make("p", { id: "consent-hint", className: "hint" }, "For example: Anna Example agreed on 3 May 2026 that we animate her portrait in our news. It is kept with the presenter, and goes with it."),
      make("div", { className: "actions" }, make("button", { type: "submit", className: "primary" }, "Add the presenter"), make("button", { type: "button", className: "link" }, "Do not add")));
    const dialog = make("dialog", { className: "card key", "aria-labelledby": "consent-title" }, form);
    let given = null;
    field.addEventListener("input", () => field.setCustomValidity(""));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = field.value.trim();
      if (given) dialog.close();
      else {
        field.setCustomValidity("Say who agreed, and to what.");
        field.reportValidity();
      }
    });
    form.querySelector(".link").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given || null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
