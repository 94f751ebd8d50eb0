// Marks stretches of a step's text: select them with the pointer, or press m and move by words with the arrow keys.
// A mark is kept as [start, end, label] in the step's hidden field, counted in characters as the server counts them.
const LABELS = ["wrong", "made up", "good"];
const HIGHLIGHT = "review-mark";

export class Marks {
  constructor(form) {
    this.form = form;
    this.bar = makeBar((label) => this.mark(label));
    document.body.append(this.bar);
    document.addEventListener("selectionchange", () => this.offer());
    for (const field of form.querySelectorAll("[data-spans]")) if (field.value) this.show(field);
  }

  // From the keyboard: the step's first word is selected; arrows move it, with Shift they stretch it, Enter marks.
  begin(step) {
    const text = step?.querySelector(".as-text[data-markable]");
    if (!text) return;
    const selection = getSelection();
    selection.setPosition(text, 0);
    selection.modify("extend", "forward", "word");
    const listen = (event) => {
      const side = { ArrowLeft: "backward", ArrowRight: "forward" }[event.key];
      if (side) selection.modify(event.shiftKey ? "extend" : "move", side, "word");
      if (side && !event.shiftKey) selection.modify("extend", "forward", "word");
      if (event.key === "Enter") this.offer();
      if (event.key === "Enter") this.bar.querySelector("button").focus();
      if (event.key === "Escape") selection.removeAllRanges();
      if (!side && event.key === "Shift") return;
      event.preventDefault();
      event.stopPropagation();
      if (!side) document.removeEventListener("keydown", listen, true);
    };
    document.addEventListener("keydown", listen, true);
  }

  offer() {
    const found = this.selected();
    if (found === null) {
      if (!this.bar.contains(document.activeElement)) this.bar.hidden = true;
      return;
    }
    this.found = found;
    this.bar.hidden = false;
    if (found.text.nextElementSibling !== this.bar) found.text.after(this.bar); // moving it would take its focus
  }

  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    const holder = range.commonAncestorContainer;
    const text = (holder.nodeType === Node.TEXT_NODE ? holder.parentElement : holder).closest?.(".as-text[data-markable]");
    if (!text) return null;
    const start = count(text, range.startContainer, range.startOffset);
    const end = count(text, range.endContainer, range.endOffset);
    return start < end ? { text, start, end } : null;
  }

  mark(label) {
    this.found = this.selected() ?? this.found;
    if (!this.found) return;
    const { text, start, end } = this.found;
    const field = document.getElementById(text.dataset.markable);
    this.write(field, [...read(field), [start, end, label]]);
    getSelection().removeAllRanges();
    this.bar.hidden = true;
    field.closest(".judged-step")?.focus();
  }

  write(field, spans) {
    field.value = spans.length ? JSON.stringify(spans) : "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    this.show(field);
  }

  show(field) {
    const text = document.querySelector(`.as-text[data-markable="${field.id}"]`);
    const list = field.closest("[data-judge]")?.querySelector("[data-marks]");
    if (!list) return;
    const characters = text ? characterPlaces(text) : [];
    list.replaceChildren(
      ...read(field).map((span, place) => {
        const item = document.createElement("li");
        const words = document.createElement("span");
        const quoted = characters.slice(span[0], Math.min(span[1], span[0] + 60)).map((one) => one.shown).join("");
        words.textContent = `${span[2]}: “${quoted}${span[1] - span[0] > 60 ? "…" : ""}”`;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "small quiet";
        button.textContent = "Remove";
        button.setAttribute("aria-label", `Remove the mark ${words.textContent}`);
        button.addEventListener("click", () => this.write(field, read(field).toSpliced(place, 1)));
        item.append(words, button);
        return item;
      }),
    );
    this.paint();
  }

  paint() {
    if (!globalThis.Highlight) return;
    const ranges = [];
    for (const field of this.form.querySelectorAll("[data-spans]")) {
      const text = document.querySelector(`.as-text[data-markable="${field.id}"]`);
      const spans = text ? read(field) : [];
      if (!spans.length) continue;
      const characters = characterPlaces(text);
      for (const [start, end] of spans) {
        const first = characters[start];
        const last = characters[end - 1];
        if (!first || !last) continue;
        const range = new Range();
        range.setStart(first.node, first.offset);
        range.setEnd(last.node, last.offset + last.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set(HIGHLIGHT, new Highlight(...ranges));
  }
}

function read(field) {
  try {
    return JSON.parse(field.value || "[]");
  } catch {
    return [];
  }
}

// One entry a character of the source: a hidden character is shown as its name, which counts as one.
function characterPlaces(root) {
  const places = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement?.classList.contains("hidden-char")) {
      places.push({ node, offset: 0, length: node.length, shown: node.data });
      continue;
    }
    let offset = 0;
    for (const character of node.data) {
      places.push({ node, offset, length: character.length, shown: character });
      offset += character.length;
    }
  }
  return places;
}

function count(root, container, offset) {
  const range = new Range();
  range.setStart(root, 0);
  range.setEnd(container, offset);
  const fragment = range.cloneContents();
  return characterPlaces(fragment).length;
}

function makeBar(mark) {
  const bar = document.createElement("div");
  bar.className = "mark-bar";
  bar.hidden = true;
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Mark the selected words");
  for (const label of LABELS) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small plain";
    button.textContent = `Mark as ${label}`;
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => mark(label));
    bar.append(button);
  }
  return bar;
}
