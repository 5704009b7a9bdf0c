
(() => {
  // News: told by name of the event. Where there are too many pages for this one, it says so.
  const hear = (address, told) => {
    const source = new EventSource(address), place = document.querySelector("[data-live=news]"), said = place.textContent;
    source.addEventListener("open", () => { place.textContent = said; });
    source.addEventListener("full", () => { place.textContent = "Too many pages are open: this one stands still until another is closed."; });
    // Refused for good: the session is over, or the run is gone. The page itself will say it.
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000); });
    for (const [name, tell] of Object.entries(told)) source.addEventListener(name, tell);
    return source;
  };

  // The list: when it is another one on the disk, its part of the page is replaced.
  const list = document.getElementById("runs");
  if (list) {
    const chosen = () => new Set([...list.querySelectorAll("input:checked")].map((box) => box.value));
    const renew = async () => {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
      if (!fresh) { location.reload(); return; } // the session is over
      const now = chosen(), at = document.activeElement && document.activeElement.value;
      for (const box of fresh.querySelectorAll("input[name=run]")) box.checked = now.has(box.value);
      for (const part of [".over p", "tbody"]) {
        const [old, next] = [list.querySelector(part), fresh.querySelector(part)];
        if (old && next) old.replaceWith(next);
        else { location.reload(); return; }
      }
      // In the order that was asked for: a click on the heading turns it round.
      const head = list.querySelector("th:not([aria-sort=none])");
      if (head) {
        head.setAttribute("aria-sort", head.getAttribute("aria-sort") === "ascending" ? "none" : "ascending");
        head.firstElementChild.click();
      }
      for (const box of list.querySelectorAll("input[name=run]")) if (at === box.value) box.focus();
    };
    hear(list.dataset.events, { changed: renew });
  }

  // A run under way.
  const live = document.getElementById("live");
  if (live) {
    const place = (name) => document.querySelector(`[data-live=${name}]`);
    const status = (event) => {
      const told = JSON.parse(event.data);
      if (told.trials === undefined) return;
      const whole = document.getElementById("whole"), part = document.getElementById("part");
      whole.max = told.trials;
      whole.value = told.done;
      if (told.share === null) part.removeAttribute("value");
      else part.value = told.share;
      place("trials").textContent = `${told.done} of ${told.trials}`;
      place("part").textContent = told.share === null ? "" : `${Math.round(told.share * 100)} %`;
      place("job").textContent = told.jobs ? `Job ${told.number} of ${told.jobs}: ${told.job}` : "";
      place("what").textContent = told.what;
      place("live").textContent = told.live;
      place("recent").replaceChildren(...told.recent.reverse().map((line) => {
        const item = document.createElement("li");
        item.textContent = line;
        return item;
      }));
    };
    const source = hear(live.dataset.events, {
      status,
      ended: () => { source.close(); setTimeout(() => location.reload(), 1000); },
    });
  }
})();
