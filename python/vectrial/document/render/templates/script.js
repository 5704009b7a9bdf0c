"use strict";
(() => {
  const root = document.documentElement;
  const remember = (theme) => { try { localStorage.setItem("vectrial-theme", theme); } catch { /* storage may be off */ } };
  const remembered = () => { try { return localStorage.getItem("vectrial-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme:dark)").matches ? "dark" : "light")) === "dark";
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
  });

  // Tooltips: the chart library writes each mark's description into aria-label.
  const tip = document.getElementById("tip");
  const MARK = '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"]):not([aria-roledescription="legend"])';
  let shown = null;
  const hide = () => { if (shown) shown.classList.remove("on"); shown = null; tip.hidden = true; };
  const show = (mark) => {
    if (mark === shown) return;
    hide();
    shown = mark;
    mark.classList.add("on");
    tip.replaceChildren(...mark.getAttribute("aria-label").split(" | ").map((line, i) => {
      const row = document.createElement(i ? "div" : "b");
      const at = i ? line.indexOf(": ") : -1;
      if (at > 0) {
        const name = document.createElement("i");
        name.textContent = line.slice(0, at);
        row.append(name, line.slice(at + 2));
      } else row.textContent = line;
      return row;
    }));
    tip.hidden = false;
    const box = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const x = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 8);
    const above = box.top - own.height - 10;
    tip.style.transform = `translate(${x}px,${above > 60 ? above : box.bottom + 10}px)`;
  };
  const nearest = (svg, x, y) => {
    let best = null, least = 28 * 28;
    for (const mark of svg.querySelectorAll(MARK)) {
      const box = mark.getBoundingClientRect();
      const dx = Math.max(box.left - x, 0, x - box.right), dy = Math.max(box.top - y, 0, y - box.bottom);
      const cx = box.left + box.width / 2 - x, cy = box.top + box.height / 2 - y;
      const far = dx * dx + dy * dy + (box.width < 40 ? (cx * cx + cy * cy) * 0.01 : 0);
      if (far < least && !mark.classList.contains("dimmed")) { least = far; best = mark; }
    }
    return best;
  };
  let pending = 0;
  for (const svg of document.querySelectorAll(".drawing > svg")) {
    const point = (event) => {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() => {
        const mark = nearest(svg, event.clientX, event.clientY);
        if (mark) show(mark); else hide();
      });
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", () => { cancelAnimationFrame(pending); hide(); });
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      const marks = [...svg.querySelectorAll(MARK)].filter((mark) => !mark.classList.contains("dimmed"));
      if (!marks.length) return;
      const at = marks.indexOf(shown);
      show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
    });
  }
  addEventListener("scroll", hide, { passive: true });

  // Legends: pressed series stay, the others fade.
  for (const figure of document.querySelectorAll("figure")) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    const every = buttons.map((button) => button.dataset.colour);
    const update = () => {
      const kept = buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.colour);
      for (const mark of figure.querySelectorAll(".drawing [fill], .drawing [stroke]")) {
        const own = every.find((colour) => mark.getAttribute("fill") === colour || mark.getAttribute("stroke") === colour);
        mark.classList.toggle("dimmed", Boolean(kept.length && own && !kept.includes(own)));
      }
    };
    for (const button of buttons) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
        update();
      });
    }
  }

  // Tables: a click on a heading sorts; cells without a value stay last.
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.querySelectorAll("th")];
    heads.forEach((head, column) => head.firstElementChild?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0], sign = down ? -1 : 1;
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim();
      };
      const numeric = head.classList.contains("num");
      body.append(...[...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (numeric) {
          const [p, q] = [typeof x === "number", typeof y === "number"];
          return p && q ? sign * (x - y) : Number(q) - Number(p);
        }
        return sign * String(x).localeCompare(String(y));
      }));
    }));
  }

  // Tables that hold more than is seen fade out where it is.
  for (const box of document.querySelectorAll(".scroll")) {
    const update = () => {
      box.classList.toggle("right", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
      box.classList.toggle("down", box.scrollTop + box.clientHeight < box.scrollHeight - 2);
    };
    box.addEventListener("scroll", update, { passive: true });
    new ResizeObserver(update).observe(box);
  }

  // Which section one is in.
  const links = new Map([...document.querySelectorAll(".bar nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const a of links.values()) a.classList.remove("here");
      const link = links.get(entry.target.id);
      if (!link) continue; // the page's own sections are not in the bar
      link.classList.add("here");
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 16;
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const part of document.querySelectorAll(".part")) seen.observe(part);
})();
