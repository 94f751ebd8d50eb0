// A form whose files are too large for a request: they are sent before it, in parts, each known by its hash, and the
// form says the hashes in their place. What was sent before is not sent again, and what broke off goes on.
const PART_BYTES = 600_000;

for (const form of document.querySelectorAll("form[data-sends]")) {
  form.addEventListener("submit", (event) => {
    const inputs = [...form.querySelectorAll("input[data-send]")];
    const size = inputs.flatMap((input) => [...input.files]).reduce((sum, file) => sum + file.size, 0);
    if (size <= Number(form.dataset.most) / 2) return; // the rows have the other half
    event.preventDefault();
    send(form, inputs);
  });
}

async function send(form, inputs) {
  const button = form.querySelector("[type=submit]");
  const said = form.querySelector("[data-sending]");
  said.hidden = false;
  if (!crypto.subtle) return void (said.textContent = form.dataset.wordsInsecure);
  button.disabled = true;
  try {
    const sent = {};
    for (const input of inputs) {
      sent[input.name] = {};
      for (const file of input.files) {
        const say = (share) => {
          const words = form.dataset.wordsSending.replace("DONE", Math.floor(100 * share));
          said.textContent = words.replace("NAME", () => file.name);
        };
        sent[input.name][file.name] = await sendFile(form, file, say);
      }
    }
    for (const input of inputs) input.value = "";
    form.elements.sent.value = JSON.stringify(sent);
    form.submit();
  } catch (error) {
    said.textContent = error.message;
    button.disabled = false;
  }
}

async function sendFile(form, file, say) {
  say(0);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  const sha256 = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const path = form.dataset.sends.replace("0".repeat(64), sha256);
  let told = await ask(path, { method: "GET" });
  while (!told.whole) {
    const offset = told.received_bytes;
    const part = await encode(file.slice(offset, offset + PART_BYTES));
    told = await ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
      body: JSON.stringify({ size_bytes: file.size, offset, part }),
    });
    say(told.received_bytes / file.size);
  }
  return sha256;
}

async function ask(path, request) {
  const answer = await fetch(path, { ...request, credentials: "same-origin" });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.detail ?? `${answer.status}`);
  return told;
}

function encode(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(blob);
  });
}
