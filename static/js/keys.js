// What keys do. Which key does it, how that is called and grouped, the page says: one list on the server, with what the
// account chose, feeds handlers, help, aria-keyshortcuts and the tests. A single key never acts in a text field; only
// what has `everywhere` does. A key that is held down acts once, but for what has `repeats`. People switch single keys off or give them other letters (WCAG 2.1.4): their account's
// choice stands in the page, and the box in the help is this browser's. Several scripts of a page share one help.
const OFF = "tentalis.keys";

export class Keys {
  constructor(entries, { dialog }) {
    const table = JSON.parse(dialog.dataset.keyTable);
    this.entries = entries.filter((entry) => entry.id in table).map((entry) => ({ ...entry, ...table[entry.id] }));
    this.dialog = dialog;
    this.on = localStorage.getItem(OFF) ?? document.body.dataset.keys ?? "on";
    document.addEventListener("keydown", (event) => this.press(event));
    this.describe();
    this.announce();
    document.addEventListener("htmx:after:swap", () => this.announce());
  }

  press(event) {
    if (event.isComposing || event.altKey || (this.dialog.open && event.key !== "Escape")) return;
    const combined = event.ctrlKey || event.metaKey;
    const name = (combined ? "Control+" : "") + event.key;
    const entry = this.entries.find((one) => one.key.split(" ").includes(name));
    if (!entry || (!entry.everywhere && (this.on !== "on" || isText(event.target)))) return;
    if (event.repeat && !entry.repeats) return event.preventDefault();
    if (entry.run(event) !== false) event.preventDefault();
  }

  announce() {
    for (const entry of this.entries) {
      for (const target of entry.target ? document.querySelectorAll(entry.target) : []) {
        if (this.on === "on" || entry.everywhere) target.setAttribute("aria-keyshortcuts", entry.key);
        else target.removeAttribute("aria-keyshortcuts");
      }
    }
  }

  describe() {
    const list = this.dialog.querySelector("[data-key-list]");
    const groups = new Map();
    for (const entry of this.entries) groups.set(entry.group, [...(groups.get(entry.group) ?? []), entry]);
    for (const [group, entries] of groups) {
      const title = document.createElement("h3");
      title.textContent = group;
      const table = document.createElement("dl");
      for (const entry of entries) {
        const keys = document.createElement("dt");
        for (const key of entry.key.split(" ")) {
          const cap = document.createElement("kbd");
          cap.textContent = key.replace("Control+", "Ctrl ").replace("Escape", "Esc").replace("Arrow", "");
          keys.append(cap);
        }
        const words = document.createElement("dd");
        words.textContent = entry.label;
        table.append(keys, words);
      }
      list.append(title, table);
    }
    const box = this.dialog.querySelector("#keys-on");
    box.checked = this.on === "on";
    box.addEventListener("change", () => {
      this.on = box.checked ? "on" : "off";
      localStorage.setItem(OFF, this.on);
      this.announce();
    });
    this.dialog.querySelector("[data-close]").addEventListener("click", () => this.dialog.close());
  }

  help() {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }
}

// Whether keys pressed there are text.
export function isText(element) {
  if (!(element instanceof HTMLElement)) return false;
  if (element.isContentEditable || element.matches("textarea, select")) return true;
  return element.matches("input:not([type=radio], [type=checkbox], [type=range], [type=button], [type=submit])");
}
