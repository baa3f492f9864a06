// Keys and controls.
function toggle(box) { box.checked = !box.checked; draw(); }
function moveSlice(by) {
  const last = Number(byId("slice").max), wanted = plane + by;
  if (!drawn || wanted < 0 || wanted > last) return;
  showPlane(wanted);
  nameViews();
}
let hiddenLayers = null;
function hideLayers() {
  const boxes = ["given", "predicted", "suggested", "drawn"].map((name) => byId(`layer-${name}`));
  if (hiddenLayers) boxes.forEach((box, index) => { box.checked = hiddenLayers[index]; });
  else { const before = boxes.map((box) => box.checked); boxes.forEach((box) => { box.checked = false; }); hiddenLayers = before; draw(); return; }
  hiddenLayers = null;
  draw();
}
function judged(choice) {
  if (isBlind()) say("First say whether the annotation looks right or wrong.", true);
  else decide(choice);
}
const KEYS = {
  a: () => judged("accept"), k: () => judged("keep"), l: () => judged("later"), c: () => byId("comment").focus(),
  n: () => step(1), p: () => step(-1), "/": () => byId("search").focus(), "[": () => moveSlice(-1), "]": () => moveSlice(1), h: hideLayers,
  z: () => { if (!byId("zoom").parentElement.hidden) { byId("zoom").checked = !byId("zoom").checked; refit(); } },
  "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: showWhole,
  f: () => toggle(byId("fill")), x: () => { if (served) toggle(byId("crosshair")); }, m: measure,
};
function storeComment() {
  const finding = findingNow();
  if (finding) decide(choiceOf(finding) || "later", false, decisions.get(finding.id)?.mask || "");
}
document.addEventListener("keydown", (event) => {
  const inText = event.target.matches("textarea, select, input:not([type='checkbox']):not([type='radio']):not([type='range'])");
  if (event.target === byId("comment") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    storeComment();
    byId("comment").blur();
    return;
  }
  if (event.key === "Escape" && inText) event.target.blur();
  if (inText || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  const act = KEYS[event.key];
  if (act && (shownCases.length || event.key === "/")) { event.preventDefault(); act(); }
});
byId("list").addEventListener("keydown", (event) => {
  const last = shownCases.length - 1, here = current.position;
  const wanted = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + 8, PageUp: here - 8, Home: 0, End: last };
  if (!(event.key in wanted)) return;
  const position = Math.min(Math.max(wanted[event.key], 0), last);
  event.preventDefault();
  select(position, 0, true);
});
for (const name of ["accept", "keep", "later"]) byId(name).addEventListener("click", () => decide(name));
byId("next").addEventListener("click", () => step(1));
byId("previous").addEventListener("click", () => step(-1));
byId("store-comment").addEventListener("click", storeComment);
byId("download").addEventListener("click", download);
function refit() { if (source) { fitViews(); draw(); } }
byId("slice").addEventListener("input", () => { showPlane(Number(byId("slice").value)); nameViews(); });
for (const name of ["layer-given", "layer-predicted", "layer-suggested"]) byId(name).addEventListener("change", () => draw());
byId("zoom").addEventListener("change", refit);
new ResizeObserver(() => draw()).observe(byId("views"));
