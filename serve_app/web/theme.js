// Light or dark: what the system prefers, until somebody presses the button.

import { byId } from "./dom.js";

export function installTheme() {
  const set = (scheme) => { document.documentElement.style.colorScheme = scheme; };
  byId("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.style.colorScheme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    set(next);
    localStorage.setItem("theme", next);
  });
  const kept = localStorage.getItem("theme");
  if (kept === "dark" || kept === "light") set(kept);
}
