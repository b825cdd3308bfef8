// Shows where one is in the menu where that scrolls.
// Follows the stream of a page: at news it asks for the page again, and replaces what is marked with data-live.
"use strict";
(() => {
  const menu = document.querySelector("header nav"), here = menu && menu.querySelector("[aria-current]");
  if (here) {
    const place = here.getBoundingClientRect(), around = menu.getBoundingClientRect();
    menu.scrollLeft += place.left + place.width / 2 - around.left - around.width / 2;
  }

  const state = document.querySelector("[data-stream]");
  if (!state || !window.EventSource) return;
  let waiting = false, again = false, ended = false, shown = "";

  const live = "Live: follows what happens.";
  const say = (text) => { if (!ended && shown !== text) { state.textContent = shown = text; state.classList.toggle("live", text === live); } };
  const isBusy = (region) =>
    region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, button, summary")
    || [...region.querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue);

  const replace = (page) => {
    let left = false;
    for (const region of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(region.id);
      if (!fresh || fresh.innerHTML === region.innerHTML) continue;
      if (isBusy(region)) { left = true; continue; }
      const places = [...region.querySelectorAll(".wide")].map((part) => part.scrollLeft);
      const link = document.activeElement && region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      region.replaceChildren(...document.adoptNode(fresh).childNodes);
      [...region.querySelectorAll(".wide")].forEach((part, number) => { part.scrollLeft = places[number] || 0; });
      const same = link && [...region.querySelectorAll("a")].find((each) => each.getAttribute("href") === link);
      if (same) same.focus({ preventScroll: true });
    }
    say(left ? "There is news. What you are writing is left as it is: reload the page when you are done." : live);
  };

  const refresh = async () => {
    if (waiting) { again = true; return; }
    waiting = true;
    try {
      do {
        again = false;
        const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
        if (!answer.ok) { say("The page could not be renewed: reload it."); return; }
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
        await new Promise((resolve) => setTimeout(resolve, 300));
      } while (again);
    } catch { say("The server does not answer: trying again."); }
    finally { waiting = false; }
  };

  const source = new EventSource(state.dataset.stream);
  source.addEventListener("open", () => say(live));
  source.addEventListener("news", refresh);
  source.addEventListener("end", () => { source.close(); say("Your session is over: log in again."); ended = true; });
  source.addEventListener("error", () => say(source.readyState === EventSource.CLOSED
    ? "The page does not follow what happens any more: reload it." : "The connection was lost: trying again."));
})();
