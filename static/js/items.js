// Keys of items one below the other: to the next, the one before, and the page after.
import { Keys } from "./keys.js";

const items = () => [...document.querySelectorAll("[data-item]")];

function step(by) {
  const found = items();
  const at = found.findIndex((one) => one.contains(document.activeElement));
  const next = found[at < 0 ? (by > 0 ? 0 : found.length - 1) : at + by];
  if (!next) return false;
  next.focus();
  next.scrollIntoView({ block: "start" });
  return true;
}

new Keys(
  [
    { id: "item-next", target: "[data-item]", repeats: true, run: () => step(1) },
    { id: "item-previous", repeats: true, run: () => step(-1) },
    { id: "item-further", target: "[data-key=further]", run: () => document.querySelector("[data-key=further]")?.click() },
  ],
  { dialog: document.getElementById("keys") },
);
