// Small things every page does: it tells the server the reader's time zone, and closes an open menu that one leaves.
import { isText } from "./keys.js";

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

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.classList.add("done");
  });
}

// `/` goes to the search, unless one is typing or has switched single keys off.
const search = document.querySelector("[data-search-key]");
const singleKeys = localStorage.getItem("tentalis.keys") ?? document.body.dataset.keys ?? "on";
if (search && singleKeys === "on") {
  search.setAttribute("aria-keyshortcuts", "/");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || isText(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const box = search.offsetParent ? search : document.querySelector("#search-words");
    if (!box) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}
