// The list. Every case has its place; a row is made when it comes into sight, or when its case is chosen.
const PRINTED_ROWS = 40;
const rows = [];
const waiting = new Map();
const places = state.cases.map((_, index) => {
  const place = element("li");
  place.dataset.index = index;
  return place;
});
const inSight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const index = Number(target.dataset.index);
    clearTimeout(waiting.get(index));
    if (!isIntersecting) continue;
    rowOf(index);
    // What is only scrolled past is not asked for.
    waiting.set(index, setTimeout(() => {
      inSight.unobserve(target);
      cropOf(index).then((address) => {
        if (address) rows[index].button.querySelector(".blank")?.replaceWith(element("img", { src: address, alt: "" }));
      }, () => {});
    }, 120));
  }
}, { rootMargin: "200px" });
function rowOf(index) {
  if (rows[index]) return rows[index];
  const what = element("span", { class: "what" });
  const button = element("button", { type: "button", class: "row", tabindex: "-1" }, element("span", { class: "blank" }),
    element("span", {}, element("span", { class: "name", text: baseName(state.cases[index].image) }), what));
  button.addEventListener("click", () => select(shownCases.indexOf(index), 0));
  rows[index] = { button, what };
  places[index].append(button);
  fillRow(index);
  return rows[index];
}
function fillRow(index) {
  showCount();
  if (!rows[index]) return;
  const one = state.cases[index];
  const first = one.findings[0];
  const done = one.findings.filter((finding) => choiceOf(finding)).length;
  const more = one.findings.length > 1 ? ` and ${one.findings.length - 1} more` : "";
  const probability = first.probability === null ? "" : `, ${Math.round(100 * first.probability)}\u00a0%`;
  const parts = [element("span", { text: `${first.title}${probability}${more}` })];
  if (one.findings.some(isDiffering)) parts.push(element("span", { class: "differ", text: " · readers differ" }));
  if (done) parts.push(element("span", { class: "done",
    text: isQuestion(first) ? ` · ${wordOf(first, choiceOf(first))}` : ` · ${done} of ${one.findings.length} decided` }));
  rows[index].what.replaceChildren(...parts);
}
function showList() {
  const list = byId("list");
  list.replaceChildren(...shownCases.map((index) => places[index]));
  list.scrollTop = 0;
  for (const index of shownCases.slice(0, PRINTED_ROWS)) rowOf(index);
  for (const index of shownCases) if (!places[index].querySelector("img")) inSight.observe(places[index]);
  showCount();
}
const withFindings = state.cases.filter((one) => !one.findings.every(isAsked)).length;
const questions = state.cases.map((one) => one.findings[0]).filter(isQuestion);
function showCount() {
  const all = state.cases.length, cases = all === 1 ? "case" : "cases";
  const seen = questions.filter((finding) => choiceOf(finding) === "keep").length;
  const first = byId("order").value === "list" ? ", those with findings first" : "";
  const which = shownCases.length === all ? `${all} ${cases}, ${withFindings} with findings${first}`
    : `${shownCases.length} of ${all} ${cases}`;
  byId("count").textContent = seen ? `${which}; ${seen} without findings seen` : which;
}
// A page that is one file may lack the images of its last cases.
function showAbsent() {
  if (served) return;
  const absent = state.cases.length - document.querySelectorAll("script[id^='content-']").length;
  byId("absent").hidden = !absent;
  byId("absent").textContent = `The images of ${absent} cases are not in this file`
    + (state.shared ? "." : ", which they would make too large: the command fedannot audit review shows all.");
}

// Search, filters and order.
const sizes = allFindings.filter((finding) => finding.size !== null).map((finding) => finding.size).sort((a, b) => a - b);
const lower = sizes[Math.floor(sizes.length / 3)];
const upper = sizes[Math.floor((2 * sizes.length) / 3)];
const FILTERS = ["kind", "class", "size", "patient", "annotator", "state"];
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
function option(value, text) { return element("option", { value, text }); }
function offer(name, values, text = (value) => value) {
  const field = byId(`filter-${name}`), given = [...new Set(values)];
  field.append(option("", "all"), ...given.map((value) => option(value, text(value))));
  field.parentElement.hidden = given.length < 2;
}
function fillFilters() {
  const findings = state.cases.flatMap((one) => one.findings);
  offer("kind", findings.map((finding) => finding.kind), (kind) => state.kinds[kind] || kind);
  const classes = allFindings.flatMap((finding) => finding.classes);
  offer("class", classes);
  byId("filter-class").parentElement.hidden = !classes.length;
  const unit = (allFindings.find((finding) => finding.size !== null) || {}).sizeUnit;
  const shown = (size) => `${size >= 100 ? size.toFixed(0) : Number(size.toPrecision(3))} ${unit || ""}`;
  const bounds = { small: `under ${shown(lower || 0)}`, medium: `${shown(lower || 0)} to ${shown(upper || 0)}`, large: `over ${shown(upper || 0)}` };
  offer("size", sizes.length ? Object.keys(bounds) : [], (name) => bounds[name]);
  offer("patient", state.cases.map((one) => one.unit).filter(Boolean).sort(inOrder));
  offer("annotator", state.cases.flatMap((one) => one.annotators).sort(inOrder));
  const form = byId("filters");
  form.addEventListener("change", (event) => { if (event.target !== byId("search")) filterCases(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("all-cases").addEventListener("click", showAll);
  let typed = 0;
  byId("search").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(filterCases, 150); });
}
function hasSize(finding, wanted) {
  if (!wanted) return true;
  if (finding.size === null) return false;
  return wanted === (finding.size < lower ? "small" : finding.size > upper ? "large" : "medium");
}
function hasState(finding, wanted) {
  if (wanted === "all") return true;
  return wanted === "differ" ? isDiffering(finding) : wanted === (choiceOf(finding) || "open");
}
const chosen = (name) => byId(`filter-${name}`).value;
function passes(finding, index = shownCases[current.position]) {
  const kind = chosen("kind"), name = chosen("class"), label = isAsked(finding) ? state.cases[index]?.label : null;
  return (!kind || finding.kind === kind) && (!name || finding.classes.includes(name) || label === name)
    && hasSize(finding, chosen("size")) && hasState(finding, chosen("state"));
}
// All that a reader may look for: names, patient, annotator, kinds, classes, and what was said.
function textOf(one) {
  const said = one.findings.flatMap((finding) => [finding.title, ...finding.classes, decisions.get(finding.id)?.reason]);
  return [one.image, one.label, one.unit, ...one.annotators, ...said].filter(Boolean).join("\n").toLowerCase();
}
function caseFits(index, words) {
  const one = state.cases[index], patient = chosen("patient"), annotator = chosen("annotator");
  if ((patient && one.unit !== patient) || (annotator && !one.annotators.includes(annotator))) return false;
  if (!one.findings.some((finding) => passes(finding, index))) return false;
  if (!words.length) return true;
  const text = textOf(one);
  return words.every((word) => text.includes(word));
}
const largest = (one) => Math.max(...one.findings.map((finding) => finding.size ?? -1));
const ORDERS = {
  score: (one, other) => other.score - one.score,
  disagreement: (one, other) => other.disagreement - one.disagreement,
  uncertainty: (one, other) => other.uncertainty - one.uncertainty,
  size: (one, other) => largest(other) - largest(one),
  patient: (one, other) => inOrder(one.unit || one.image, other.unit || other.image),
  name: (one, other) => inOrder(one.image, other.image),
};
function filterCases() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const compare = ORDERS[byId("order").value];
  shownCases = state.cases.map((_, index) => index).filter((index) => caseFits(index, words));
  // Equal ones stay in the order of the list.
  if (compare) shownCases.sort((one, other) => compare(state.cases[one], state.cases[other]));
  showList();
  const first = shownCases[0];
  if (shownCases.length) select(0, state.cases[first].findings.findIndex((finding) => passes(finding, first)));
  else showNothing();
}
function showAll() {
  byId("filters").reset();
  filterCases();
}
function showNothing() {
  // A case that is still being read is not shown either.
  current = { position: 0, finding: 0 };
  byId("case-title").textContent = "No case has such a finding.";
  byId("case-meta").textContent = "";
  byId("case-problem").hidden = true;
  hideCase();
  byId("findings").replaceChildren();
}
// What the buttons say: of a case without a finding, that somebody has seen it.
function nameButtons(finding) {
  byId("accept").hidden = state.shared || isQuestion(finding);
  byId("keep").firstChild.textContent = isQuestion(finding) ? "Seen, nothing wrong " : "Keep annotation ";
}
