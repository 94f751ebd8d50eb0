// Approvals by keyboard, and the time that is left. Keys act on the card that is focused, and never while somebody
// types; who switched keys off in the preferences has none. Without this file every button and form works.
const TICK_MS = 1000;
const LATE_S = 30;
const ANSWERS = "areht";

const cards = () => [...document.querySelectorAll("[data-proposal]")];

function chosen() {
  return document.activeElement?.closest?.("[data-proposal]") ?? null;
}

function choose(step) {
  const all = cards();
  if (!all.length) return;
  const at = all.indexOf(chosen());
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function answer(card, key) {
  const place = card.querySelector(`[data-answer="${key}"]`);
  if (!place) return;
  if (place.tagName === "BUTTON") {
    place.form.requestSubmit(place);
    return;
  }
  place.parentElement.open = true;
  place.parentElement.querySelector("input:not([type=hidden]), textarea, select")?.focus();
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const at = event.target;
  const folded = at.closest?.("details.answer[open]");
  if (event.key === "Escape" && folded) {
    folded.open = false;
    folded.closest("[data-proposal]").focus();
    return;
  }
  if (at.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName)) return;
  if (event.key === "j" || event.key === "k") {
    choose(event.key === "j" ? 1 : -1);
    event.preventDefault();
  } else if (event.key.length === 1 && ANSWERS.includes(event.key) && chosen()) {
    answer(chosen(), event.key);
    event.preventDefault();
  }
}

function say(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

function tick() {
  for (const time of document.querySelectorAll("[data-deadline]")) {
    const left = Math.max(0, Math.round((Date.parse(time.dateTime) - Date.now()) / 1000));
    time.textContent = say(left);
    time.closest(".deadline").classList.toggle("is-late", left <= LATE_S);
  }
}

if (document.body.dataset.keys !== "off") {
  document.addEventListener("keydown", onKey);
  for (const help of document.querySelectorAll("[data-keys-help]")) help.hidden = false;
}
tick();
setInterval(tick, TICK_MS);
document.addEventListener("htmx:after:swap", tick);
if (location.hash === "#queue") choose(1);
