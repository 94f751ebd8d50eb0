// Keeps what is typed: on the server within a second, in this browser while the server is away. It also holds the
// review and counts the seconds somebody works on it. Nothing typed is ever thrown away by what goes wrong here: this
// browser lets its copy go when the server has it, or says that the judgement is recorded.
import { SIGNED_OUT, isElsewhere } from "./answers.js";

const SAVE_MS = 700;
const HOLD_MS = 30_000;
const IDLE_MS = 60_000;
const TICK_MS = 1_000;
const KEPT_OUT = ["csrfmiddlewaretoken", "draft_version", "active_s"];

export function placeOf(path) {
  return `tentalis.draft.${path}`;
}

export class Draft {
  constructor(form, { state, trouble, restored }) {
    Object.assign(this, { form, state, trouble, restored });
    this.place = placeOf(form.dataset.draft);
    this.seen = this.ticked = Date.now();
    this.seconds = Number(form.elements.active_s.value || 0);
    this.saved = this.read();
    this.bring();
    form.addEventListener("input", () => {
      this.left = false; // it was sent, and the page is still here
      this.change();
    });
    form.addEventListener("change", () => this.change());
    form.addEventListener("submit", () => this.leave());
    for (const kind of ["keydown", "pointerdown", "pointermove", "scroll"]) {
      document.addEventListener(kind, () => (this.seen = Date.now()), { passive: true, capture: true });
    }
    setInterval(() => this.tick(), TICK_MS);
    setInterval(() => this.hold(), HOLD_MS);
    addEventListener("online", () => this.dirty && this.save());
    addEventListener("pageshow", (event) => event.persisted && (this.left = false));
  }

  // What the server holds was rendered into the form. What only this browser holds is newer, unless another draft was
  // saved since: then which of them it shall be is the reader's choice.
  bring() {
    const kept = localStorage.getItem(this.place);
    if (!kept) return;
    const { data, version, sent } = JSON.parse(kept);
    if (version === this.form.elements.draft_version.value || sent === this.saved) this.take(data);
    else this.offer(data);
  }

  offer(data) {
    const note = document.createElement("p");
    note.className = "note warning";
    note.textContent = "A draft was saved after the one that this browser kept. ";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small plain";
    button.textContent = "Take what this browser kept";
    button.addEventListener("click", () => {
      note.remove();
      this.take(data);
    });
    note.append(button);
    this.trouble.before(note);
  }

  take(data) {
    for (const name of new Set([...this.form.elements].map((field) => field.name))) put(this.form, name, data[name] ?? "");
    this.say(this.form.dataset.wordsRestored ?? "Restored what this browser kept");
    this.change();
    this.restored();
    this.save();
  }

  read() {
    const data = new FormData(this.form);
    for (const name of KEPT_OUT) data.delete(name);
    return new URLSearchParams(data).toString();
  }

  change() {
    if (this.left || this.read() === this.saved) return;
    this.dirty = true;
    this.say("");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), SAVE_MS);
    this.remember();
  }

  // Beside the draft that the page knows the server has stands what is on its way there: the page may be left before it
  // hears that it came.
  remember() {
    const data = Object.fromEntries([...new FormData(this.form)].filter(([name]) => name !== "csrfmiddlewaretoken"));
    const version = this.form.elements.draft_version.value;
    try {
      localStorage.setItem(this.place, JSON.stringify({ data, version, sent: this.sent }));
    } catch {
      // a full store: the server has it within the second
    }
  }

  async save() {
    clearTimeout(this.timer);
    if (this.saving) return (this.again = true);
    const sent = (this.sent = this.read());
    this.saving = true;
    this.remember();
    try {
      const body = new URLSearchParams(new FormData(this.form));
      const answer = await fetch(this.form.dataset.draft, { method: "POST", body, credentials: "same-origin" });
      const said = answer.headers.get("content-type")?.includes("json") ? await answer.json() : {};
      if (isElsewhere(answer, this.form.dataset.draft)) this.refuse(answer.status, { message: `${SIGNED_OUT}. This browser keeps your draft` });
      else if (answer.ok) this.keep(sent, said.version);
      else this.refuse(answer.status, said);
    } catch {
      this.say("The server is away; this browser keeps your draft");
    } finally {
      this.saving = false;
      if (this.again) {
        this.again = false;
        this.change();
      }
    }
  }

  keep(sent, version) {
    this.form.elements.draft_version.value = version;
    this.saved = sent;
    this.dirty = this.read() !== sent;
    if (!this.dirty) {
      localStorage.removeItem(this.place);
      this.say("Draft saved");
    } else this.change();
  }

  refuse(status, said) {
    this.say("Not saved");
    if (said.code === "stale_draft") {
      this.complain(`${said.message}. Your text stays here; press a key to save it over the other one.`);
      this.form.elements.draft_version.value = said.version;
    } else this.complain(said.message ?? `The draft could not be saved (${status}); your text stays here.`);
  }

  async hold() {
    if (document.hidden || this.left) return;
    const body = new URLSearchParams({ csrfmiddlewaretoken: this.form.elements.csrfmiddlewaretoken.value });
    try {
      const answer = await fetch(this.form.dataset.hold, { method: "POST", body, credentials: "same-origin" });
      if (isElsewhere(answer, this.form.dataset.hold)) this.complain(`${SIGNED_OUT}. This browser keeps your draft`);
      else if (answer.status === 409) this.complain(`${(await answer.json()).message}. What you wrote stays here as a draft.`);
      else if (answer.ok) this.trouble.replaceChildren();
    } catch {
      this.say("The server is away; this browser keeps your draft");
    }
  }

  // Time passes while the page is seen and somebody moves in it.
  tick() {
    const now = Date.now();
    if (!document.hidden && now - this.seen <= IDLE_MS) this.seconds += (now - this.ticked) / 1000;
    this.ticked = now;
    this.form.elements.active_s.value = this.seconds.toFixed(1);
  }

  leave() {
    this.tick();
    this.left = true;
    clearTimeout(this.timer);
  }

  say(words) {
    this.state.textContent = words;
  }

  complain(words) {
    const note = document.createElement("p");
    note.className = "note error";
    note.textContent = words;
    this.trouble.replaceChildren(note);
  }
}

function put(form, name, value) {
  const field = form.elements[name];
  if (!field || field.type === "submit" || KEPT_OUT.includes(name)) return;
  if (field instanceof RadioNodeList) field.value = value;
  else if (field.type === "checkbox") field.checked = Boolean(value);
  else field.value = value;
}
