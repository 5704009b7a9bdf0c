
(() => {
  // Tables can be filtered and their rows compared; the fragment keeps the choice, so that an
  // address leads to it: #table-points?store=faiss&recall_mean=0.95&beside=3,9
  const LEAST = 8, MOST = 40;
  const TEXTS = ["store", "lane", "dataset", "predicate", "durability", "verdict"];
  const LISTS = ["stores", "datasets", "experiments"];
  const NUMBERS = { rows: "is", k: "is", clients: "is", nodes: "is", recall: "least", recall_mean: "least", qps: "least", latency_p99: "most", search_p99: "most" };
  const SAYS = { least: "at least", most: "at most" };
  const parsed = () => {
    const [id, query] = decodeURI(location.hash.slice(1)).split("?");
    return { id, query: new URLSearchParams(query || "") };
  };
  const made = (name, ...children) => {
    const element = document.createElement(name);
    element.append(...children);
    return element;
  };
  const shown = (cell) => {
    const value = cell.querySelector(".v"), small = cell.querySelector("small");
    return [value ? value.textContent.trim() : cell.textContent.trim(), small ? small.textContent : ""];
  };

  const prepare = (box) => {
    const table = box.querySelector("table"), rows = [...table.tBodies[0].rows];
    if (rows.length < LEAST) return;
    const heads = [...table.querySelectorAll("th")];
    rows.forEach((row, number) => { row.dataset.n = number; });
    const controls = new Map();
    const form = made("form");
    form.className = "sift";
    form.setAttribute("role", "search");
    form.setAttribute("aria-label", `Filter ${box.querySelector("h3, summary").textContent}`);
    const label = (title, control) => {
      const says = made("span", title);
      form.append(made("label", says, control));
    };
    heads.forEach((head, column) => {
      const key = head.dataset.key, title = head.textContent.trim(), way = NUMBERS[key];
      const choice = (values, keeps) => {
        if (values.length < 2 || values.length > MOST) return;
        const select = made("select", new Option("all", ""), ...values.map((value) => new Option(value, value)));
        label(title, select);
        controls.set(key, { control: select, keeps: keeps || ((row, value) => shown(row.cells[column])[0] === value) });
      };
      if (TEXTS.includes(key)) choice([...new Set(rows.map((row) => shown(row.cells[column])[0]))].sort());
      else if (LISTS.includes(key)) {
        const listed = (row) => shown(row.cells[column])[0].split(", ");
        choice([...new Set(rows.flatMap(listed))].sort(), (row, value) => listed(row).includes(value));
      } else if (way === "is") {
        const numbers = [...new Set(rows.map((row) => shown(row.cells[column])[0]))];
        choice(numbers.sort((a, b) => Number(a.replaceAll(",", "")) - Number(b.replaceAll(",", ""))));
      } else if (way) {
        const input = made("input"), scale = head.dataset.unit === "us" ? 1000 : 1;
        input.type = "number";
        input.step = "any";
        label(`${title} ${SAYS[way]}${scale === 1000 ? ", ms" : ""}`, input);
        controls.set(key, { control: input, keeps: (row, value) => {
          const own = row.cells[column].dataset.v;
          if (own === undefined) return false;
          return way === "least" ? Number(own) >= Number(value) : Number(own) <= Number(value) * scale;
        } });
      }
    });
    if (!controls.size) return;
    const clear = made("button", "Clear"), said = made("output");
    clear.type = "button";
    form.append(clear, said);
    box.querySelector(".scroll").before(form);
    const beside = made("div");
    beside.className = "beside";
    beside.hidden = true;
    box.querySelector(".scroll").after(beside);
    let ticked = [];

    const measured = heads.some((head) => ["least", "most"].includes(NUMBERS[head.dataset.key]));
    if (measured) for (const row of rows) {
      const tick = made("input");
      tick.type = "checkbox";
      tick.className = "tick";
      tick.title = "Compare with another row";
      tick.setAttribute("aria-label", `Compare ${shown(row.cells[0])[0]}, row ${Number(row.dataset.n) + 1}`);
      tick.addEventListener("change", () => {
        ticked = ticked.filter((other) => other !== row);
        if (tick.checked) ticked.push(row);
        while (ticked.length > 2) ticked.shift().querySelector(".tick").checked = false;
        remember();
        compare();
      });
      (row.cells[0].querySelector(".name") || row.cells[0]).prepend(tick);
    }
    const compare = () => {
      beside.hidden = ticked.length < 2;
      beside.replaceChildren();
      if (beside.hidden) return;
      const body = made("tbody");
      heads.forEach((head, column) => {
        const row = made("tr", made("th", head.textContent.trim()));
        row.firstChild.scope = "row";
        for (const one of ticked) {
          const [value, small] = shown(one.cells[column]);
          row.append(made("td", value, ...(small ? [made("small", small)] : [])));
        }
        body.append(row);
      });
      const note = made("p", "Side by side as measured. A verdict needs equal terms: see the ranks, or vectrial compare.");
      note.className = "note";
      const side = made("table", body), scroll = made("div", side);
      scroll.className = "scroll";
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", "Two rows side by side");
      beside.append(made("h4", "Side by side"), scroll, note);
    };
    const apply = () => {
      let count = 0;
      const active = [...controls.values()].filter(({ control }) => control.value !== "");
      for (const row of rows) {
        row.hidden = !active.every(({ control, keeps }) => keeps(row, control.value));
        count += row.hidden ? 0 : 1;
      }
      said.textContent = `${count} of ${rows.length} rows`;
    };
    const remember = () => {
      const query = new URLSearchParams();
      for (const [key, { control }] of controls) if (control.value !== "") query.set(key, control.value);
      if (ticked.length) query.set("beside", ticked.map((row) => row.dataset.n).join(","));
      history.replaceState(null, "", `#${box.id}${query.size ? `?${query}` : ""}`);
    };
    const recall = () => {
      const { id, query } = parsed();
      if (id !== box.id) return;
      for (const [key, { control }] of controls) control.value = query.get(key) || "";
      ticked = (query.get("beside") || "").split(",").filter(Boolean).map((n) => rows[Number(n)]).filter(Boolean).slice(0, 2);
      for (const tick of box.querySelectorAll(".tick")) tick.checked = ticked.includes(tick.closest("tr"));
      apply();
      compare();
      if (query.size) box.scrollIntoView({ behavior: "instant" });
    };
    form.addEventListener("input", () => { apply(); remember(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    clear.addEventListener("click", () => {
      for (const { control } of controls.values()) control.value = "";
      ticked = [];
      for (const tick of box.querySelectorAll(".tick")) tick.checked = false;
      apply();
      compare();
      remember();
    });
    apply();
    recall();
    addEventListener("hashchange", recall);
  };
  for (const box of document.querySelectorAll("[data-sift] .table:has(th[data-key])")) prepare(box);
})();
