// Keys of the pages between two reviews: the queue, the offer of one, and what stood behind the last.
import { Keys } from "./keys.js";
import "./queue.js";

const dialog = document.getElementById("keys");
const click = (selector) => document.querySelector(selector)?.click();

document.documentElement.classList.add("scripted");
new Keys(
  [
    { id: "queue-next", target: "[data-key=next]", run: () => click("[data-key=next]") },
    { id: "queue-undo", target: "[data-key=undo]", run: () => click("[data-key=undo]") },
  ],
  { dialog },
);
