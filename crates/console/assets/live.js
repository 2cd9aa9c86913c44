// What agents write appears without a reload: parts of the page that say so are asked for again.
const address = document.body.dataset.live;
const parts = () => [...document.querySelectorAll("[data-refresh]")];
const news = document.querySelector(".news");

// A part that is worked in is left alone; a note offers the news instead.
const isBusy = (part) => part.contains(document.activeElement) || part.querySelector("input:checked");

const refresh = async () => {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of parts()) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.textContent !== part.textContent) part.replaceWith(document.adoptNode(fresh));
  }
};

const tell = (head) => {
  const since = Number(document.body.dataset.head);
  const many = Number(head) - since;
  if (many <= 0) return;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Show" });
  button.addEventListener("click", () => location.reload());
  news.replaceChildren(`${many} new ${many === 1 ? "change" : "changes"}`, button);
  news.hidden = false;
};

if (address) {
  const events = new EventSource(address);
  events.addEventListener("head", async ({ data }) => {
    if (parts().length > 0 && !parts().some(isBusy)) {
      await refresh();
      document.body.dataset.head = data;
    } else {
      tell(data);
    }
  });
  addEventListener("pagehide", () => events.close());
}
