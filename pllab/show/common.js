// Helpers of every widget. Python puts this text in front of the widget's own module: no build step, no imports.

const SVG_SPACE = "http://www.w3.org/2000/svg";

/** Make an HTML element: attributes by name, functions become listeners, false and null are left out. */
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** A real table with a header row: rows are lists of texts. */
function tableOf(caption, headings, rows) {
  const head = headings.map((text) => element("th", { scope: "col" }, text));
  const body = rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text))));
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...body),
  );
}

/** Call the function when the node's width changes (and once it has one); returns how to stop. */
function watchWidth(node, react) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (node.clientWidth && node.clientWidth !== width) react((width = node.clientWidth));
  });
  observer.observe(node);
  return () => observer.disconnect();
}

/** Call the function when the page turns light or dark, JupyterLab's theme or the system's; returns how to stop. */
function watchTheme(react) {
  const stopped = new AbortController();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", react, { signal: stopped.signal });
  const themes = new MutationObserver(react);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light"] });
  return () => {
    stopped.abort();
    themes.disconnect();
  };
}

/** The colours of theme.py for the page as it is, light or dark, by the ground that the widget stands on. */
function lookOf(theme, root) {
  const channels = getComputedStyle(root).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]; // none outside the page
  const [red, green, blue] = channels.map(Number);
  return red + green + blue < 384 ? theme.dark : theme.light;
}

/** A colour laid thinly on a ground, as theme.py mixes it. */
function mix(colour, ground, share) {
  const channel = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => Math.round(share * channel(colour, at) + (1 - share) * channel(ground, at)));
  return `#${mixed.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** The tint of a kind's boxes, for the first stage of a rank or a later one. */
function tintOf(look, kind, isLater = false) {
  return mix(look.hues[kind] ?? look.over, look.ground, isLater ? look.pale : look.strong);
}
