// Keys: / finds, j and k go through a list, u undoes, ? helps.
const typing = (target) => target.closest("input:not([type=checkbox], [type=range]), textarea, select, dialog[open]");

const move = (step) => {
  const items = [...document.querySelectorAll("main [data-item]")];
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[at < 0 && step < 0 ? items.length - 1 : at + step];
  const link = next?.matches("a") ? next : next?.querySelector("[data-open]") ?? next?.querySelector("a, button");
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
};

const actions = {
  "/": () => {
    const field = document.querySelector("#q") ?? document.querySelector("#find");
    field.focus();
    field.select();
  },
  j: () => move(1),
  k: () => move(-1),
  u: () => (document.querySelector("button.undo") ?? document.querySelector("main [data-undo]"))?.click(),
  "?": () => document.querySelector("#help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

for (const range of document.querySelectorAll("[data-shows]")) {
  range.addEventListener("input", () => (document.getElementById(range.dataset.shows).value = range.value));
}
