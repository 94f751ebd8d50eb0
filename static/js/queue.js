// The bar that offers to undo the last judgement: it counts down, and goes when the time is over.
for (const bar of document.querySelectorAll("[data-undo-until]")) {
  const until = Date.parse(bar.dataset.undoUntil);
  const count = bar.querySelector("[data-countdown]");
  const timer = setInterval(tell, 1000);
  function tell() {
    const left = Math.ceil((until - Date.now()) / 1000);
    if (left > 0) count.textContent = ` (${left} s)`;
    else {
      clearInterval(timer);
      bar.querySelector("form").remove();
    }
  }
  tell();
}
