// Tokens read one by one: by pointing, or by the arrow keys once they are focused. Without this file each token's title
// says the same.
const NEXT = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity };
let current = null;

function tell(token) {
  const said = document.querySelector("[data-token-said]");
  if (said && token) said.textContent = `“${token.textContent}” · ${token.title}`;
}

function choose(list, token) {
  if (!token) return;
  current?.removeAttribute("data-current");
  current = token;
  token.dataset.current = "";
  token.scrollIntoView({ block: "nearest" });
  tell(token);
}

document.addEventListener("pointerover", (event) => {
  const token = event.target.closest?.("[data-tokens] i");
  if (token) tell(token);
});
document.addEventListener("keydown", (event) => {
  const list = event.target.closest?.("[data-tokens]");
  if (!list || !(event.key in NEXT)) return;
  const tokens = list.getElementsByTagName("i");
  const at = current && list.contains(current) ? [...tokens].indexOf(current) + NEXT[event.key] : 0;
  choose(list, tokens[Math.min(tokens.length - 1, Math.max(0, at))]);
  event.preventDefault();
});
