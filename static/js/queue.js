// The bar that offers to undo the last judgement: it counts down, and goes when the time is over. What this browser kept
// of the judgement goes at once: the server has it.
import { now } from "./clock.js";
import { placeOf } from "./draft.js";

for (const bar of document.querySelectorAll("[data-undo-until]")) {
  const until = Date.parse(bar.dataset.undoUntil);
  const count = bar.querySelector("[data-countdown]");
  localStorage.removeItem(placeOf(bar.dataset.recorded));
  const timer = setInterval(tell, 1000);
  function tell() {
    const left = Math.ceil((until - now()) / 1000);
    if (left > 0) count.textContent = ` (${left} s)`;
    else {
      clearInterval(timer);
      bar.querySelector("form").remove();
    }
  }
  tell();
}
