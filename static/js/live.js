// Keeps a page true without reloading it. An element with data-live="task review:7" is fetched anew, by htmx, when
// something of these kinds happens in the project. Without a socket, or without scripts, pages are as true as when
// they were loaded.
import { isElsewhere } from "./answers.js";

const KINDS_OF = { trainingrun: "run", auditentry: "audit" };
const GATHER_MS = 250;
const PAUSE_MS = 1000;
const WAITS_MS = [500, 1000, 2000, 5000, 10000];
const AGAIN_MS = 5000;

const page = document.body.dataset;
const sign = document.querySelector("[data-live-state]");
const due = new Set();
let last = Number(page.liveAfter || 0);
let failures = 0;
let timer = null;
let refreshedAt = 0;

function show(state, words) {
  if (!sign) return;
  sign.hidden = false;
  sign.dataset.state = state;
  sign.textContent = words;
}

function hear(entry) {
  last = Math.max(last, entry.id);
  if ((entry.project ?? page.project) !== page.project) return; // what is above projects is on their pages too
  due.add(entry.kind.split(".")[0]);
  const [type, id] = entry.subject.split(":");
  due.add(`${KINDS_OF[type] ?? type}:${id}`);
  due.add("audit");
  schedule();
}

function schedule() {
  if (timer !== null || document.hidden || due.size === 0) return;
  const wait = Math.max(GATHER_MS, refreshedAt + PAUSE_MS - Date.now());
  timer = setTimeout(refresh, wait);
}

function refresh() {
  timer = null;
  refreshedAt = Date.now();
  for (const element of document.querySelectorAll("[data-live]")) {
    if (element.dataset.live.split(" ").some((kind) => due.has(kind))) htmx.trigger(element, "live");
  }
  due.clear();
}

// What is no answer is not shown: the part stays as it is, and asks again.
document.addEventListener("htmx:before:response", (event) => {
  const { sourceElement, request, response } = event.detail.ctx;
  if (isElsewhere(response.raw, request.action)) show("waiting", "Signed out");
  else if (response.status >= 400) askAgain(sourceElement);
  else return;
  event.preventDefault();
});
document.addEventListener("htmx:error", (event) => askAgain(event.detail.ctx?.sourceElement));

function askAgain(element) {
  if (element?.matches("[data-live]")) setTimeout(() => htmx.trigger(element, "live"), AGAIN_MS);
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}${page.livePath}?batched=1&after=${last}`);
  let openedAt = Infinity;
  socket.addEventListener("open", () => {
    openedAt = Date.now();
    show("live", "Live");
  });
  socket.addEventListener("message", (event) => JSON.parse(event.data).forEach(hear));
  socket.addEventListener("close", () => {
    show("waiting", "Reconnecting");
    if (Date.now() - openedAt > WAITS_MS.at(-1)) failures = 0; // one that is opened and closed at once has failed
    setTimeout(connect, WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)]);
  });
}

document.addEventListener("visibilitychange", schedule);
if (page.livePath) connect();
