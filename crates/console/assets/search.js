// Results appear while one types. Without this the form is sent as any other.
const form = document.querySelector("[data-search]");
const PAUSE_MS = 120;
let waiting;
let asked = 0;

const show = async () => {
  const own = ++asked;
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const address = `${form.action}?${query}`;
  const response = await fetch(address);
  // A later question has been asked meanwhile.
  if (!response.ok || own !== asked) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = page.getElementById("results");
  if (own !== asked || !fresh) return;
  document.getElementById("results").replaceWith(document.adoptNode(fresh));
  history.replaceState(null, "", address);
};

form?.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(show, PAUSE_MS);
});
