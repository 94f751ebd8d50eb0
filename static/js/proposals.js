// Approvals by keyboard, and the time that is left. The keys of an answer act on the card that is focused, and never
// while somebody types. Without this file every button and form works.
import { now } from "./clock.js";
import { Keys } from "./keys.js";

const TICK_MS = 1000;
const LATE_S = 30;
const ANSWERS = ["approve", "reject", "edit", "hint", "take_over"];

const dialog = document.getElementById("keys");
const cards = () => [...document.querySelectorAll("[data-proposal]")];
const chosen = () => document.activeElement?.closest?.("[data-proposal]") ?? null;

function choose(step) {
  const all = cards();
  if (!all.length) return false;
  const at = all.indexOf(chosen());
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function answer(word) {
  const place = chosen()?.querySelector(`[data-answer="${word}"]`);
  if (!place) return false;
  if (place.tagName === "BUTTON") {
    place.form.requestSubmit(place);
    return true;
  }
  place.parentElement.open = true;
  place.parentElement.querySelector("input:not([type=hidden]), textarea, select")?.focus();
  return true;
}

function leave() {
  const open = document.activeElement?.closest?.("details.answer[open]");
  if (!open) return false;
  open.open = false;
  open.closest("[data-proposal]").focus();
  return true;
}

function say(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

function tick() {
  for (const time of document.querySelectorAll("[data-deadline]")) {
    const left = Math.max(0, Math.round((Date.parse(time.dateTime) - now()) / 1000));
    time.textContent = say(left);
    time.closest(".deadline").classList.toggle("is-late", left <= LATE_S);
  }
}

function startKeys() {
  new Keys(
    [
      { id: "proposal-next", repeats: true, run: () => choose(1) },
      { id: "proposal-previous", repeats: true, run: () => choose(-1) },
      ...ANSWERS.map((word) => ({ id: `proposal-${word}`, target: `[data-answer="${word}"]`, run: () => answer(word) })),
      { id: "proposal-fold", everywhere: true, run: leave },
    ],
    { dialog },
  );
}

startKeys();
tick();
setInterval(tick, TICK_MS);
document.addEventListener("htmx:after:swap", tick);
if (location.hash === "#queue") choose(1);
