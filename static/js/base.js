// Small things every page does: it tells the server the reader's time zone, and closes an open menu that one leaves.
import { Keys } from "./keys.js";

const YEAR_S = 31536000;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
const secure = location.protocol === "https:" ? "; secure" : "";
if (zone && !document.cookie.includes(`tentalis_zone=${encodeURIComponent(zone)}`)) {
  document.cookie = `tentalis_zone=${encodeURIComponent(zone)}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
}

function closeMenus(but) {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (menu !== but) menu.open = false;
  }
}

document.addEventListener("click", (event) => closeMenus(event.target.closest("details[data-menu]")));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = event.target.closest?.("details[data-menu][open]");
  closeMenus(null);
  menu?.querySelector("summary").focus();
});

// Long parts begin folded on a narrow screen: <details data-fold open>. Without scripts they are open everywhere.
const narrow = matchMedia("(max-width: 40rem)");

function fold() {
  for (const part of document.querySelectorAll("details[data-fold]")) {
    part.open = !narrow.matches || part.querySelector(":target, .errorlist") !== null;
  }
}

narrow.addEventListener("change", fold);
fold();
// a browser names what is wrong with a field only where the field is seen
document.addEventListener(
  "invalid",
  (event) => {
    const part = event.target.closest("details[data-fold]");
    if (part) part.open = true;
  },
  true,
);

// A form on its way is not sent a second time while the page waits. It may be sent again where the page stays: a file was
// the answer, or the reader stopped it.
const WAITS_MS = 10_000;
const sent = new Map();
addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method")?.toLowerCase() !== "post") return;
  const button = event.submitter ?? form;
  if (Date.now() - (sent.get(button) ?? -Infinity) < WAITS_MS) event.preventDefault();
  else sent.set(button, Date.now());
});
addEventListener("pageshow", () => sent.clear());

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.classList.add("done");
  });
}

// Keys of every page of a project.
const dialog = document.getElementById("keys");

function search() {
  const box = [...document.querySelectorAll("#search, #search-words")].find((one) => one.offsetParent);
  if (!box) return false;
  box.focus();
  box.select();
  return true;
}

if (dialog) {
  const keys = new Keys(
    [
      { id: "search", target: "#search", run: search },
      { id: "help", target: "[data-key=help]", run: () => keys.help() },
    ],
    { dialog },
  );
  for (const button of document.querySelectorAll("[data-key=help]")) {
    button.hidden = false;
    button.addEventListener("click", () => keys.help());
  }
}
