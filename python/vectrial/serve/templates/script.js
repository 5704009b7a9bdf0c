
(() => {
  // The list: when it is another one on the disk, its part of the page is replaced.
  const list = document.getElementById("runs");
  if (list) {
    const chosen = () => new Set([...list.querySelectorAll("input:checked")].map((box) => box.value));
    const renew = async () => {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
      const now = chosen(), at = document.activeElement && document.activeElement.value;
      for (const box of fresh.querySelectorAll("input[name=run]")) box.checked = now.has(box.value);
      for (const part of [".over p", "tbody"]) {
        const [old, next] = [list.querySelector(part), fresh.querySelector(part)];
        if (old && next) old.replaceWith(next);
        else { location.reload(); return; }
      }
      for (const box of list.querySelectorAll("input[name=run]")) if (at === box.value) box.focus();
    };
    new EventSource(list.dataset.events).addEventListener("changed", renew);
  }

  // A run under way.
  const live = document.getElementById("live");
  if (live) {
    const place = (name) => document.querySelector(`[data-live=${name}]`);
    const source = new EventSource(live.dataset.events);
    source.addEventListener("status", (event) => {
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
    });
    source.addEventListener("ended", () => { source.close(); setTimeout(() => location.reload(), 1000); });
  }
})();
