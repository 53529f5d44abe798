"use strict";
// Draws each figure when it first comes into view, and again in the other colours when the theme changes.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set();

  function themed(figure) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const ink = colour("--ink"), faint = colour("--faint"), line = colour("--line");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, fixedrange: false };
    const text = JSON.stringify(figure).replaceAll('"INK"', JSON.stringify(ink)).replaceAll('"FAINT"', JSON.stringify(faint));
    const { data, layout } = JSON.parse(text);
    return {
      data,
      layout: {
        hoverlabel: { font: { color: "#1a1d21" }, bgcolor: "#ffffff", bordercolor: "#68707a" },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: ink, family: getComputedStyle(document.body).fontFamily, size: 13 },
        ...layout,
        margin: { l: 70, r: 25, t: 25, b: 60, ...layout.margin },
        xaxis: { ...axis, ...layout.xaxis },
        yaxis: { ...axis, ...layout.yaxis },
      },
    };
  }

  function draw(element) {
    const { data, layout } = themed(figures[element.id]);
    drawn.add(element);
    Plotly.react(element, data, layout, { responsive: true, displayModeBar: false });
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const element of document.querySelectorAll(".plot")) seen.observe(element);

  // A link to a group opens it.
  function open() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  window.addEventListener("hashchange", open);
  open();

  dark.addEventListener("change", () => drawn.forEach(draw));
  // On paper everything shows but closed groups, so it has to be drawn.
  window.addEventListener("beforeprint", () => {
    for (const element of document.querySelectorAll(".plot")) {
      if (!element.closest("details:not([open])")) draw(element);
    }
  });
})();
