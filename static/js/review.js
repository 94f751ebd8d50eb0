// The review page at work: keys, thumbs and sliders, marks, the draft. The form below it is complete without this.
import { Keys } from "./keys.js";
import { Draft } from "./draft.js";
import { Marks } from "./compare.js";
import "./queue.js";

const TEACHING = "#id_text, #id_edited_answer, [data-comment], [data-score], [data-rank], input[type=radio], [name=none_good], [name=teaches]";
const SCORES = { 1: "0", 2: "0.25", 3: "0.5", 4: "0.75", 5: "1" };
const form = document.getElementById("judgement");
const answers = [...document.querySelectorAll(".answer")];
const dialog = document.getElementById("keys");
const undoForm = document.querySelector("[data-undo-until] form");
let current = null;

document.documentElement.classList.add("scripted");
// long reviews have thousands of fields, nearly all of them empty
form.addEventListener("formdata", ({ formData }) => {
  for (const name of new Set(formData.keys())) if (formData.get(name) === "") formData.delete(name);
});

// scores: the number is the field, thumbs and slider follow it
function places() {
  return form.querySelectorAll("[data-judge]");
}

function show(place) {
  const field = place.querySelector("input[type=number]");
  const slider = place.querySelector("[data-slide]");
  const value = field.value === "" ? Number(field.placeholder || 0.5) : Number(field.value);
  slider.value = value;
  slider.classList.toggle("unset", field.value === "" && !field.placeholder);
  slider.setAttribute("aria-valuetext", field.value || (field.placeholder ? `${field.placeholder}, from the first wrong step` : "no score"));
  for (const thumb of place.querySelectorAll("[data-set]")) {
    thumb.setAttribute("aria-pressed", String(field.value !== "" && Number(field.value) === Number(thumb.dataset.set)));
  }
}

function set(place, value) {
  const field = place?.querySelector("input[type=number]");
  if (!field) return;
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

for (const place of places()) {
  place.querySelector("[data-slide]").addEventListener("input", (event) => {
    event.stopPropagation();
    set(place, event.target.value);
  });
  for (const thumb of place.querySelectorAll("[data-set]")) {
    thumb.addEventListener("click", () => set(place, thumb.getAttribute("aria-pressed") === "true" ? "" : thumb.dataset.set));
  }
}

// a first wrong step says something of every step up to it: it shows as the number that would be taken
function showImplied(answer) {
  const chosen = answer.querySelector(".wrong input:checked")?.value ?? "";
  for (const step of answer.querySelectorAll(".judged-step")) {
    const index = Number(step.dataset.step);
    const first = chosen === "" ? null : Number(chosen);
    const implied = first === null || index > first ? "" : index === first ? "0" : "1";
    step.querySelector("input[type=number]").placeholder = implied;
    step.classList.toggle("first-wrong", index === first);
    show(step.querySelector("[data-judge]"));
  }
}

function showAll() {
  for (const answer of answers) showImplied(answer);
  for (const place of places()) show(place);
  for (const box of form.querySelectorAll("[data-comment]")) grow(box);
}

function grow(box) {
  box.rows = Math.min(8, Math.max(1, box.value.split("\n").length, Math.ceil(box.value.length / 40)));
}

form.addEventListener("input", (event) => {
  if (event.target.matches("[data-comment]")) grow(event.target);
  const place = event.target.closest("[data-judge]");
  if (place) show(place);
  const answer = event.target.closest(".answer");
  if (answer) showImplied(answer);
});
form.addEventListener("change", (event) => {
  if (event.target.closest(".wrong")) showImplied(event.target.closest(".answer"));
});

// where one is: a step, an answer's header otherwise
function steps() {
  return [...form.querySelectorAll(".judged-step")];
}

function goTo(step) {
  if (!step) return;
  const part = step.closest("details[data-fold]");
  if (part) part.open = true; // what is folded takes no focus
  current?.removeAttribute("data-current");
  current = step;
  step.dataset.current = "";
  step.focus({ preventScroll: true });
  step.scrollIntoView({ block: "nearest" });
  showWhole(step.closest(".answer"));
}

// answers stand side by side in a row that scrolls: the one at work is seen whole
function showWhole(answer) {
  const row = answer?.parentElement;
  if (!row) return;
  const left = answer.offsetLeft - 3;
  const right = answer.offsetLeft + answer.offsetWidth + 3 - row.clientWidth;
  for (const link of document.querySelectorAll(".jump a")) {
    link.toggleAttribute("aria-current", link.hash === `#${answer.id}`);
  }
  if (left < row.scrollLeft || right > row.scrollLeft) row.scrollLeft = left; // where the row snaps to
}

function here() {
  return document.activeElement.closest?.(".judged-step") ?? current;
}

function move(by) {
  const all = steps();
  const at = all.indexOf(here());
  goTo(all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]);
}

function moveAnswer(by) {
  const at = answers.indexOf(here()?.closest(".answer"));
  const next = answers[Math.min(answers.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  goTo(next?.querySelector(".judged-step") ?? next);
}

function answerHere() {
  return here()?.closest(".answer") ?? answers[0];
}

function score(value) {
  const step = here();
  set(step ? step.querySelector("[data-judge]") : form.querySelector(".verdict [data-judge]"), value);
}

// a thumb judges and goes on to the answer's next step: five steps are five keys; another answer is gone to by its key
function thumb(value) {
  const step = here() ?? steps()[0];
  if (!step) return score(value);
  if (here() === null) goTo(step);
  set(step.querySelector("[data-judge]"), value);
  const all = [...step.closest(".answer").querySelectorAll(".judged-step")];
  const next = all[all.indexOf(step) + 1];
  if (next) goTo(next);
}

function firstWrong() {
  const step = here();
  const radio = step?.querySelector(".wrong input");
  if (!radio) return;
  const target = radio.checked ? step.closest(".answer").querySelector(".wrong input[value='']") : radio;
  target.checked = true;
  target.dispatchEvent(new Event("input", { bubbles: true }));
}

function prefer() {
  const radio = answerHere()?.querySelector(".best input");
  if (!radio) return;
  radio.checked = true;
  radio.dispatchEvent(new Event("input", { bubbles: true }));
}

// each press gives the answer the next free place; a press more takes it away
function rank() {
  const field = answerHere()?.querySelector("[data-rank]");
  if (!field) return prefer();
  const taken = [...form.querySelectorAll("[data-rank]")].map((one) => Number(one.value)).filter(Boolean);
  field.value = field.value === "" ? Math.max(0, ...taken) + 1 : "";
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function noneGood() {
  const box = form.querySelector("[name=none_good][type=checkbox], [name=preferred_attempt][value=none]");
  if (!box) return;
  box.checked = box.type === "radio" || !box.checked;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

// the corrected answer begins with the words of the one at work, where nothing is written yet
const corrected = document.getElementById("id_edited_answer");
function correct(button) {
  if (!corrected || !button) return corrected?.focus();
  if (!corrected.value.trim()) {
    corrected.value = button.dataset.start;
    corrected.dispatchEvent(new Event("input", { bubbles: true }));
  }
  corrected.focus();
}
for (const button of document.querySelectorAll("[data-start]")) button.addEventListener("click", () => correct(button));

// guidelines are read once: folded from the next review on, until they say something else
const KNOWN = "tentalis.guidelines";
const guidelines = [...document.querySelectorAll("[data-known]")];
const known = guidelines.map((part) => part.textContent).join();
if (localStorage.getItem(KNOWN) === known) for (const part of guidelines) part.open = false;
form.addEventListener("submit", () => localStorage.setItem(KNOWN, known));

function click(selector) {
  document.querySelector(selector)?.click();
}

const draft = form.dataset.draft
  ? new Draft(form, {
      state: form.querySelector("[data-draft-state]"),
      trouble: form.querySelector("[data-draft-trouble]"),
      restored: showAll,
    })
  : null;
const marks = new Marks(form);

new Keys(
  [
    { id: "next-step", repeats: true, run: () => move(1) },
    { id: "previous-step", repeats: true, run: () => move(-1) },
    { id: "next-answer", repeats: true, run: () => moveAnswer(1) },
    { id: "previous-answer", repeats: true, run: () => moveAnswer(-1) },
    ...Object.entries(SCORES).map(([place, value]) => ({ id: `score-${place}`, run: () => score(value) })),
    { id: "thumb-up", run: () => thumb("1") },
    { id: "thumb-down", run: () => thumb("0") },
    { id: "first-wrong", run: firstWrong },
    { id: "comment", run: () => here()?.querySelector("[data-comment]")?.focus() },
    { id: "mark", run: () => marks.begin(here()) },
    { id: "prefer", run: prefer },
    { id: "rank", run: rank },
    { id: "none-good", run: noneGood },
    { id: "compare", target: "[data-key=compare]", run: () => click("[data-key=compare]") },
    { id: "overall", target: "#id_score", run: () => document.getElementById("id_score").focus() },
    { id: "words", target: "#id_text", run: () => document.getElementById("id_text").focus() },
    { id: "edit", target: "#id_edited_answer", run: () => document.getElementById("id_edited_answer").focus() },
    { id: "correct", target: "[data-start]", run: () => correct(answerHere()?.querySelector("[data-start]")) },
    { id: "submit", everywhere: true, target: "[data-key=submit]", run: () => click("[data-key=submit]") },
    { id: "undo", target: "[data-key=undo]", run: () => undoForm?.isConnected && click("[data-key=undo]") },
    { id: "skip", target: "[data-key=skip]", run: () => click("[data-key=skip]") },
    { id: "give-back", target: "[data-key=give-back]", run: () => click("[data-key=give-back]") },
    { id: "leave-field", everywhere: true, run: leaveField },
  ],
  { dialog },
);

function leaveField() {
  if (dialog.open || !document.activeElement.matches("input, textarea, select")) return false;
  const step = here();
  document.activeElement.blur();
  step?.focus();
  return true;
}

for (const step of steps()) {
  step.addEventListener("focusin", () => {
    current?.removeAttribute("data-current");
    current = step;
    step.dataset.current = "";
  });
}

// what it would teach, when the words have settled and are others than before; a model is asked only by the button
const SETTLED_MS = 600;
let timer = null;
let told = "";
let toldWords = false;
function tellSettled() {
  const taught = [...form.elements].filter((one) => one.matches(TEACHING)).map((one) => (/radio|checkbox/.test(one.type) ? one.checked : one.value));
  const words = JSON.stringify(taught);
  const holdsWords = [...form.elements].some((one) => one.matches("textarea") && one.value.trim());
  if (words !== told && (holdsWords || toldWords)) htmx.trigger("#preview", "settled");
  told = words;
  toldWords = holdsWords;
}
form.addEventListener("input", (event) => {
  if (!event.target.matches(TEACHING)) return;
  clearTimeout(timer);
  timer = setTimeout(tellSettled, SETTLED_MS);
});

// as text or as markdown: remembered in this browser
for (const radio of document.querySelectorAll("[name=shown-as]")) {
  radio.checked = radio.value === (localStorage.getItem("tentalis.shown-as") ?? "text");
  radio.addEventListener("change", () => localStorage.setItem("tentalis.shown-as", radio.value));
}

showAll();
if (draft) draft.saved = draft.read();
