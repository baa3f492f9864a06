// The plot.
const SVG = "http://www.w3.org/2000/svg";
const NARROW = window.innerWidth < 560;
const PLOT = { width: NARROW ? 360 : 640, height: NARROW ? 300 : 360, left: 62, right: 16, top: 14, bottom: 42 };
function shape(tag, options, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(options)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const plotX = (value) => PLOT.left + value * (PLOT.width - PLOT.left - PLOT.right);
const plotY = (value) => PLOT.height - PLOT.bottom - value * (PLOT.height - PLOT.top - PLOT.bottom);
let points = [];
function drawPlot() {
  const svg = shape("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img",
    "aria-label": `Disagreement against uncertainty of ${state.cases.length} cases` });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { class: "grid", x1: plotX(0), x2: plotX(1), y1: plotY(value), y2: plotY(value) }),
      shape("text", { x: PLOT.left - 8, y: plotY(value) + 4, "text-anchor": "end" }, String(value)),
      shape("text", { x: plotX(value), y: PLOT.height - PLOT.bottom + 16, "text-anchor": "middle" }, String(value)));
  }
  svg.append(shape("line", { class: "axis", x1: plotX(0), x2: plotX(1), y1: plotY(0), y2: plotY(0) }),
    shape("text", { x: plotX(0.5), y: PLOT.height - 6, "text-anchor": "middle" }, "uncertainty of the model"),
    shape("text", { x: 14, y: plotY(0.5), "text-anchor": "middle", transform: `rotate(-90 14 ${plotY(0.5)})` },
      "disagreement with the annotation"));
  points = state.cases.map((one, index) => {
    const suspected = !one.findings.every(isAsked);
    const point = shape("circle", { class: `${suspected ? "point" : "point other"}${isDecided(one) ? " decided" : ""}`,
      cx: plotX(one.uncertainty), cy: plotY(one.disagreement), r: suspected ? 4.5 : 3 });
    point.append(shape("title", {}, `${baseName(one.image)}: ${one.findings[0].title}`));
    point.addEventListener("click", () => {
      if (!shownCases.includes(index)) showAll();
      select(shownCases.indexOf(index), 0, true);
      byId("cases").scrollIntoView();
    });
    return point;
  });
  // Those with findings lie above the others.
  svg.append(...[...points].reverse());
  byId("plot").replaceChildren(svg);
  markPoint();
}
function markPoint() {
  byId("plot").querySelector(".selected")?.classList.remove("selected");
  points[shownCases[current.position]]?.classList.add("selected");
}
