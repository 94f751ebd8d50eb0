// Passkeys: a form that holds one is shown where the browser knows how, asks it on its way, and carries its answer.

const isKnown = Boolean(window.PublicKeyCredential?.parseCreationOptionsFromJSON);

async function ask(form) {
  const body = new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value });
  const answer = await fetch(form.dataset.options, { method: "POST", body, credentials: "same-origin" });
  if (!answer.ok) throw new Error("refused");
  const options = await answer.json();
  const credential =
    form.dataset.passkey === "create"
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  return JSON.stringify(credential.toJSON());
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !isKnown;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = form.querySelector("[data-passkey-said]");
    const field = form.querySelector("[data-passkey-answer]");
    said.hidden = true;
    try {
      field.value = await ask(form);
    } catch (error) {
      const words = form.querySelector("[data-passkey-words]").dataset;
      said.textContent = error.name === "SecurityError" ? words.wrongHost : words.refused;
      said.hidden = false;
      return;
    }
    form.submit();
  });
}
