// The page of a viewer: /watch/SESSION.

import "./live-anchor.js";
import { byId } from "./dom.js";
import { signedFetch } from "./session.js";

const kept = localStorage.getItem("theme"); // as chosen on the other pages
if (kept === "dark" || kept === "light") document.documentElement.style.colorScheme = kept;
const viewer = document.createElement("live-anchor");
viewer.fetcher = signedFetch;
viewer.setAttribute("label", "The presenter, live");
viewer.setAttribute("src", location.pathname);
byId("main").append(viewer);
