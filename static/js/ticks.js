// Ticks beside the rows of a list: Shift-click takes a range, a key the row one is at, the first box the whole page.
import { Keys } from "./keys.js";

const bar = document.querySelector("[data-ticks]");
const all = bar?.querySelector("[data-tick-all]");
const said = bar?.querySelector("[data-ticked]");
const boxes = () => [...document.querySelectorAll("input[form=ticks][name=id]")];
let last = null;

function count() {
  const found = boxes();
  const number = found.filter((box) => box.checked).length;
  said.textContent = number ? `${number} chosen` : "";
  all.checked = number > 0 && number === found.length;
  all.indeterminate = number > 0 && number < found.length;
}

function takeRange(to) {
  const found = boxes();
  const ends = [found.indexOf(last), found.indexOf(to)].sort((a, b) => a - b);
  if (ends[0] < 0) return;
  for (const box of found.slice(ends[0], ends[1] + 1)) box.checked = to.checked;
}

if (bar) {
  bar.querySelector("[data-tick-page]").hidden = false;
  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.getAttribute("form") !== "ticks") return;
    if (event.shiftKey && last) takeRange(box);
    last = box;
    count();
  });
  all.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    count();
  });
  const run = (event) => {
    const box = event.target.closest?.("tr")?.querySelector("input[form=ticks]") ?? boxes()[0];
    if (!box) return false;
    box.focus();
    box.click();
    return true;
  };
  new Keys([{ id: "tick", target: "input[form=ticks][name=id]", run }], { dialog: document.getElementById("keys") });
  count();
}
