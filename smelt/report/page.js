// Draws the plots of a report: specs are in #specs, numbers in the CSV links of the tables, colours in
// the style sheet.  Everything else on the page works without this script.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  // RFC 4180, with the header's keys; "" becomes null in number columns.
  function parseCsv(text, numbers) {
    const records = [[]];
    let cell = "", quoted = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (quoted) {
        if (c !== '"') cell += c;
        else if (text[i + 1] === '"') { cell += c; i++; }
        else quoted = false;
      } else if (c === '"') quoted = true;
      else if (c === "," || c === "\n") {
        records[records.length - 1].push(cell);
        cell = "";
        if (c === "\n") records.push([]);
      } else cell += c;
    }
    records.pop();
    const header = records.shift();
    return records.map((record) => {
      const row = {};
      header.forEach((key, k) => {
        row[key] = numbers.has(key) ? (record[k] === "" ? null : Number(record[k])) : record[k];
      });
      return row;
    });
  }

  const tables = {};
  document.querySelectorAll("a[data-table]").forEach((link) => {
    const href = link.getAttribute("href");
    const text = decodeURIComponent(href.slice(href.indexOf(",") + 1));
    tables[link.dataset.table] = parseCsv(text, new Set(link.dataset.numbers.split(" ")));
  });
  const specs = JSON.parse(document.getElementById("specs").textContent);

  // Plots keep names of colours, so that light, dark and print need no new drawing.
  const colour = (name) => `var(--${name})`;

  // "@baseline" in a spec is the colour --baseline; a data reference is a table's rows.
  function resolve(node) {
    if (typeof node === "string") return node[0] === "@" ? colour(node.slice(1)) : node;
    if (Array.isArray(node)) return node.map(resolve);
    if (node === null || typeof node !== "object") return node;
    if (typeof node.table === "string") {
      const where = Object.entries(node.where || {});
      return {
        values: (tables[node.table] || [])
          .filter((row) => where.every(([key, value]) => row[key] === value))
          .map((row) => ({ ...row })),
      };
    }
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolve(value)]));
  }

  function config() {
    const ink = colour("ink"), muted = colour("muted"), rule = colour("rule");
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, view: { stroke: null },
      axis: {
        labelColor: muted, titleColor: muted, domainColor: rule, tickColor: rule, gridColor: rule,
        gridOpacity: 0.6, labelFontSize: 11, titleFontSize: 11, titleFontWeight: 400, titlePadding: 6,
        tickSize: 4, domain: false, labelOverlap: true,
      },
      legend: { labelColor: muted, titleColor: muted, orient: "bottom" },
      text: { color: ink }, rule: { color: muted }, point: { filled: true, size: 44 },
      line: { strokeWidth: 1.8, strokeJoin: "round" },
    };
  }

  async function draw(element) {
    const spec = resolve(specs[Number(element.dataset.spec)]);
    spec.width = "container";
    spec.autosize = { type: "fit-x", contains: "padding" };
    await vegaEmbed(element, spec, {
      mode: "vega-lite", renderer: "svg", ast: true, defaultStyle: false, config: config(), actions: false,
    });
    const links = document.createElement("div");
    links.className = "save";
    for (const format of ["SVG", "PNG"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = format;
      button.setAttribute("aria-label", `Save this plot as ${format}: ${element.dataset.name}`);
      button.addEventListener("click", () => (format === "SVG" ? saveSvg : savePng)(element));
      links.append(button);
    }
    element.after(links);
  }

  // The plot with the colours it has now, and paper behind it.
  function svgText(element) {
    const svg = element.querySelector("svg").cloneNode(true);
    const value = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    svg.style.background = value("--paper");
    return new XMLSerializer().serializeToString(svg).replace(/var\((--[a-z-]+)\)/g, (_, name) => value(name));
  }

  function save(url, name) {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  }

  function saveSvg(element) {
    save("data:image/svg+xml," + encodeURIComponent(svgText(element)), element.dataset.name + ".svg");
  }

  function savePng(element) {
    const { width, height } = element.querySelector("svg").getBoundingClientRect();
    const image = new Image();
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 3 * width, height: 3 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), element.dataset.name + ".png");
    };
    image.src = "data:image/svg+xml," + encodeURIComponent(svgText(element));
  }

  async function drawAll() {
    for (const element of document.querySelectorAll("[data-spec]")) {
      try {
        await draw(element);
      } catch (problem) {
        console.error(element.dataset.name, problem);
        element.textContent = "This plot could not be drawn; its numbers are in the table below.";
      }
    }
    root.dataset.drawn = "true";
  }

  drawAll();
})();
