// The list. Rows are made once; what is out of sight is neither laid out nor decoded.
const rows = [];
const inSight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    inSight.unobserve(entry.target);
    cropOf(Number(entry.target.dataset.index)).then((address) => {
      if (address) entry.target.querySelector(".blank").replaceWith(element("img", { src: address, alt: "" }));
    }, () => {});
  }
}, { rootMargin: "200px" });
function makeRow(index) {
  const one = state.cases[index];
  const what = element("span", { class: "what" });
  const button = element("button", { type: "button", class: "row", tabindex: "-1" }, element("span", { class: "blank" }),
    element("span", {}, element("span", { class: "name", text: baseName(one.image) }), what));
  button.dataset.index = index;
  button.addEventListener("click", () => select(shownCases.indexOf(index), 0));
  const item = element("li", {}, button);
  rows[index] = { item, button, what };
  fillRow(index);
  inSight.observe(button);
  return item;
}
function fillRow(index) {
  const one = state.cases[index];
  const first = one.findings[0];
  const done = one.findings.filter((finding) => choiceOf(finding)).length;
  const more = one.findings.length > 1 ? ` and ${one.findings.length - 1} more` : "";
  const probability = first.probability === null ? "" : `, ${Math.round(100 * first.probability)}\u00a0%`;
  const parts = [element("span", { text: `${first.title}${probability}${more}` })];
  if (done) parts.push(element("span", { class: "done", text: ` · ${done} of ${one.findings.length} decided` }));
  rows[index].what.replaceChildren(...parts);
}
function showList() {
  byId("list").replaceChildren(...shownCases.map((index) => (rows[index] ? rows[index].item : makeRow(index))));
  const all = state.cases.length;
  const cases = all === 1 ? "case" : "cases";
  byId("count").textContent = shownCases.length === all ? `${all} ${cases}, the worst first`
    : `${shownCases.length} of ${all} ${cases}, the worst first`;
}

// Filters.
const sizes = allFindings.filter((finding) => finding.size !== null).map((finding) => finding.size).sort((a, b) => a - b);
const lower = sizes[Math.floor(sizes.length / 3)];
const upper = sizes[Math.floor((2 * sizes.length) / 3)];
function option(value, text) { return element("option", { value, text }); }
function fillFilters() {
  const kinds = [...new Set(allFindings.map((finding) => finding.kind))];
  byId("filter-kind").append(option("", "all"), ...kinds.map((kind) => option(kind, state.kinds[kind] || kind)));
  const classes = [...new Set(allFindings.flatMap((finding) => finding.classes))];
  byId("filter-class").append(option("", "all"), ...classes.map((name) => option(name, name)));
  const unit = (allFindings.find((finding) => finding.size !== null) || {}).sizeUnit;
  const shown = (size) => `${size >= 100 ? size.toFixed(0) : Number(size.toPrecision(3))} ${unit || ""}`;
  byId("filter-size").append(option("", "all"));
  if (sizes.length) byId("filter-size").append(option("small", `under ${shown(lower)}`),
    option("medium", `${shown(lower)} to ${shown(upper)}`), option("large", `over ${shown(upper)}`));
  byId("filters").addEventListener("change", () => filterCases());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
}
function hasSize(finding, wanted) {
  if (!wanted) return true;
  if (finding.size === null) return false;
  return wanted === (finding.size < lower ? "small" : finding.size > upper ? "large" : "medium");
}
function passes(finding) {
  const kind = byId("filter-kind").value, name = byId("filter-class").value, wanted = byId("filter-state").value;
  const choice = choiceOf(finding) || "open";
  return (!kind || finding.kind === kind) && (!name || finding.classes.includes(name))
    && hasSize(finding, byId("filter-size").value) && (wanted === "all" || wanted === choice);
}
function filterCases() {
  shownCases = state.cases.map((_, index) => index).filter((index) => state.cases[index].findings.some(passes));
  showList();
  if (shownCases.length) select(0, state.cases[shownCases[0]].findings.findIndex(passes));
  else showNothing();
}
function showNothing() {
  byId("case-title").textContent = "No case has such a finding.";
  byId("case-meta").textContent = "";
  for (const name of ["views", "view-controls", ...DECIDING]) byId(name).hidden = true;
  byId("findings").replaceChildren();
}
