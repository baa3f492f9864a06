
"use strict";
(() => {
const state = JSON.parse(document.getElementById("state").textContent);
const served = state.reviewer !== null;
// As review_frame.js keeps it.
const token = served ? sessionStorage.getItem("fedannot review") || "" : "";
const byId = (name) => document.getElementById(name);
const MAX_CONTENTS = 6;
const DECIDING = ["decide", "commenting"];
const WORDS = { accept: "Accepted", keep: "Kept", later: "Later" };
const decisions = new Map(Object.entries(state.decisions));
const contents = new Map();
const crops = new Map();
const ENDED = "the command that serves this page has ended. Start it again; what was stored before is kept.";
const STORE = `fedannot ${state.site} ${state.audit}`;
let shownCases = state.cases.map((_, index) => index);
let current = { position: 0, finding: 0 };
let drawn = null;
let plane = 0;
let busy = false;

const element = (tag, options = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") made.className = value; else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};
const baseName = (path) => path.split("/").pop();
const caseNow = () => state.cases[shownCases[current.position]];
const findingNow = () => caseNow() && caseNow().findings[current.finding];
const allFindings = state.cases.flatMap((one) => one.findings);
const choiceOf = (finding) => decisions.get(finding.id)?.choice;
const isDecided = (one) => one.findings.every((finding) => choiceOf(finding));

// What is asked of the server, or found in the page.
async function asked(path, options = {}) {
  const headers = { "X-Review-Token": token, ...(options.headers || {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.problem);
  return body;
}
async function contentOf(index) {
  if (contents.has(index)) return contents.get(index);
  const content = served ? await asked(`case/${index}`) : JSON.parse(byId(`content-${index}`).textContent);
  contents.set(index, content);
  while (contents.size > MAX_CONTENTS) contents.delete(contents.keys().next().value);
  return content;
}
async function cropOf(index) {
  if (!served) return JSON.parse(byId(`crop-${index}`).textContent);
  if (!crops.has(index)) crops.set(index, (await asked(`crop/${index}`)).crop);
  return crops.get(index);
}

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

// A case.
async function select(position, finding, focus = false) {
  const before = shownCases[current.position];
  current = { position, finding: Math.max(finding, 0) };
  const index = shownCases[position];
  for (const row of byId("list").querySelectorAll("[aria-current]")) {
    row.removeAttribute("aria-current");
    row.tabIndex = -1;
  }
  const { button } = rows[index];
  button.setAttribute("aria-current", "true");
  button.tabIndex = 0;
  keepInView(byId("list"), button);
  if (focus) button.focus({ preventScroll: true });
  const one = caseNow();
  byId("case-title").textContent = baseName(one.image);
  const facts = [!state.shared && one.image, one.unit && `patient ${one.unit}`, one.annotator && `annotated by ${one.annotator}`,
    `disagreement ${one.disagreement.toFixed(2)}`, `uncertainty ${one.uncertainty.toFixed(2)}`];
  byId("case-meta").textContent = facts.filter(Boolean).join(" · ");
  showFindings();
  markPoint();
  if (before !== index || drawn?.index !== index) byId("comment").value = "";
  // Nothing can be decided of a case that is not yet to be seen.
  if (drawn?.index !== index) drawn = null;
  const wanted = current;
  const waiting = setTimeout(() => { clearViews(); say("Reading the case …"); }, 250);
  try {
    const content = await contentOf(index);
    if (wanted === current) await showContent(index, content);
    if (byId("status").textContent.startsWith("Reading")) say("");
  } catch (error) {
    if (wanted === current) showProblem(error instanceof TypeError ? ENDED : error.message);
  } finally {
    clearTimeout(waiting);
  }
}
function keepInView(list, button) {
  const top = button.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + button.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + button.offsetHeight - list.clientHeight;
}
function clearViews() {
  for (const name of ["view-given", "view-suggested"]) {
    const canvas = byId(name);
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
  }
}
function showProblem(text) {
  drawn = null;
  byId("case-problem").textContent = `This case cannot be shown: ${text}`;
  byId("case-problem").hidden = false;
  for (const name of ["views", "view-controls", ...DECIDING]) byId(name).hidden = true;
}
function showFindings() {
  const one = caseNow();
  byId("findings").replaceChildren(...one.findings.map((finding, index) => {
    const facts = element("span", { class: "facts" }, ...finding.facts.map(([name, value]) =>
      element("span", { text: `${name} ${value}` })));
    if (one.annotator) facts.append(element("span", { text: `Annotator ${one.annotator}` }));
    const decision = decisions.get(finding.id);
    const head = element("span", { class: "head" }, element("strong", { text: finding.title }));
    if (decision) head.append(element("span", { class: `decision ${decision.choice}`,
      text: WORDS[decision.choice] + (decision.reviewer ? ` by ${decision.reviewer}` : "") }));
    const button = element("button", { type: "button", class: "finding" }, head,
      ...(finding.sentence ? [element("span", { text: finding.sentence }), element("br")] : []), facts);
    if (decision?.reason) button.append(element("br"), element("span", { class: "said", text: `“${decision.reason}”` }));
    if (index === current.finding) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => select(current.position, index).then(() =>
      byId("findings").querySelector("[aria-current]").focus()));
    return element("li", {}, button);
  }));
  const marked = byId("findings").querySelector("[aria-current]");
  if (marked) keepInView(byId("findings"), marked);
  const finding = findingNow(), choice = choiceOf(finding);
  byId("accept").disabled = !finding.canAccept;
  byId("accept").title = finding.canAccept ? "" : "Nothing is suggested for this finding.";
  for (const name of ["accept", "keep", "later"]) byId(name).setAttribute("aria-pressed", String(choice === name));
}
const decoded = (address) => new Promise((resolve, reject) => {
  const image = new Image();
  image.onload = () => resolve(image);
  image.onerror = () => reject(new Error("its image cannot be decoded."));
  image.src = address;
});
function classesOf(runs, size) {
  const classes = new Uint8Array(size);
  for (let at = 0, pixel = 0; at < runs.length; at += 2) {
    if (runs[at]) classes.fill(runs[at], pixel, pixel + runs[at + 1]);
    pixel += runs[at + 1];
  }
  return classes;
}
async function showContent(index, content) {
  if (content.problem) { showProblem(content.problem); return; }
  byId("case-problem").hidden = true;
  const hasImages = content.images.length > 0;
  for (const name of ["views", "view-controls"]) byId(name).hidden = !hasImages;
  for (const name of DECIDING) byId(name).hidden = state.shared && name !== "decide";
  const isNew = drawn?.index !== index;
  if (isNew) drawn = { index, content, images: new Map(), masks: new Map() };
  if (!hasImages) return;
  const hasMasks = content.given !== null, last = content.images.length - 1;
  byId("slice-field").hidden = last < 1;
  byId("slice").max = last;
  for (const name of ["given", "predicted", "suggested"]) byId(`layer-${name}`).parentElement.hidden = !hasMasks;
  byId("layer-predicted").parentElement.hidden = content.predicted === null;
  const place = content.findings[current.finding];
  byId("layer-suggested").parentElement.hidden = !(hasMasks && place.suggested);
  byId("zoom").parentElement.hidden = !place.box;
  plane = place.plane;
  byId("slice").value = plane;
  await draw();
  // The next case, while this one is looked at.
  const following = shownCases[current.position + 1];
  if (served && following !== undefined && drawn?.index === index) contentOf(following).catch(() => {});
}
async function imageOf(number) {
  const { images, content } = drawn;
  if (!images.has(number)) images.set(number, await decoded(content.images[number]));
  while (images.size > 24) images.delete(images.keys().next().value);
  return images.get(number);
}
function maskOf(layer, number, runs) {
  const key = `${layer} ${number}`, { masks, content } = drawn;
  if (!masks.has(key)) masks.set(key, classesOf(runs, content.width * content.height));
  while (masks.size > 96) masks.delete(masks.keys().next().value);
  return masks.get(key);
}
async function draw() {
  if (!drawn?.content.images.length) return;
  const mine = drawn, number = plane, finding = findingNow(), place = mine.content.findings[current.finding];
  const { content } = mine;
  byId("slice-number").textContent = `${number + 1} of ${content.images.length}`;
  const image = await imageOf(number);
  if (mine !== drawn || number !== plane) return;
  const zoomed = byId("zoom").checked && place.box;
  const box = zoomed ? place.box : [0, 0, content.height, content.width];
  const shown = (name) => byId(`layer-${name}`).checked;
  const layers = { given: null, predicted: null, suggested: null };
  if (content.given) {
    layers.given = maskOf("given", number, content.given[number]);
    if (content.predicted) layers.predicted = maskOf("predicted", number, content.predicted[number]);
    if (place.suggested) {
      const runs = place.suggested[number];
      layers.suggested = runs ? maskOf(`suggested ${finding.id}`, number, runs) : layers.given;
    }
  }
  const predicted = shown("predicted") && layers.predicted && ["predicted", layers.predicted];
  const pair = Boolean(layers.suggested);
  byId("figure-suggested").hidden = !pair;
  const classes = finding.classes.join(" → ");
  paint(byId("view-given"), image, box, place.box, [predicted, shown("given") && layers.given && ["given", layers.given]]);
  if (pair) paint(byId("view-suggested"), image, box, place.box,
    [predicted, shown("suggested") && ["suggested", layers.suggested]]);
  const where = content.images.length > 1 ? `, slice ${number + 1}` : "";
  byId("view-given").setAttribute("aria-label", `${baseName(caseNow().image)} as given${where}: ${finding.sentence || finding.title}`);
  byId("view-suggested").setAttribute("aria-label", `${baseName(caseNow().image)} as suggested${where}`);
  byId("caption-given").textContent = finding.newClass !== null
    ? `Given: ${caseNow().label}. Looks like: ${finding.newClass}.` : `As given${classes ? `: ${classes}` : ""}`;
}
function paint(canvas, image, box, mark, layers) {
  const { content } = drawn, [top, left, bottom, right] = box, rowsShown = bottom - top, columns = right - left;
  const frame = canvas.closest("figure"), ratio = Math.min(window.devicePixelRatio || 1, 2);
  const room = Math.max(frame.clientWidth, 120), tallest = Math.max(240, 0.62 * window.innerHeight);
  const wide = Math.min(room, (tallest * columns) / (rowsShown * content.aspect));
  const high = (wide * rowsShown * content.aspect) / columns;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  canvas.style.width = `${wide}px`;
  const pen = canvas.getContext("2d"), x = canvas.width / columns, y = canvas.height / rowsShown;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, left, top, columns, rowsShown, 0, 0, canvas.width, canvas.height);
  for (const layer of layers) if (layer) outline(pen, layer, box, x, y, ratio);
  if (mark && box !== mark) bracket(pen, mark, box, x, y, ratio);
}
const COLOURS = { given: "#ffb000", predicted: "#6cc4ff", suggested: "#5df2a0" };
function outline(pen, [name, classes], [top, left, bottom, right], x, y, ratio) {
  const { width, height } = drawn.content, path = new Path2D();
  const at = (row, column) => (row < 0 || column < 0 || row >= height || column >= width ? 0 : classes[row * width + column]);
  for (let row = top; row <= bottom; row += 1) {
    let start = -1;
    for (let column = left; column <= right; column += 1) {
      const edge = column < right && at(row, column) !== at(row - 1, column);
      if (edge && start < 0) start = column;
      if (!edge && start >= 0) {
        path.moveTo((start - left) * x, (row - top) * y);
        path.lineTo((column - left) * x, (row - top) * y);
        start = -1;
      }
    }
  }
  for (let column = left; column <= right; column += 1) {
    let start = -1;
    for (let row = top; row <= bottom; row += 1) {
      const edge = row < bottom && at(row, column) !== at(row, column - 1);
      if (edge && start < 0) start = row;
      if (!edge && start >= 0) {
        path.moveTo((column - left) * x, (start - top) * y);
        path.lineTo((column - left) * x, (row - top) * y);
        start = -1;
      }
    }
  }
  pen.lineCap = "round";
  pen.setLineDash([]);
  pen.strokeStyle = "rgba(0,0,0,.55)";
  pen.lineWidth = 3.6 * ratio;
  pen.stroke(path);
  pen.setLineDash(name === "predicted" ? [5 * ratio, 5 * ratio] : []);
  pen.strokeStyle = COLOURS[name];
  pen.lineWidth = 1.8 * ratio;
  pen.stroke(path);
  pen.setLineDash([]);
}
function bracket(pen, [top, left, bottom, right], [first, start], x, y, ratio) {
  pen.strokeStyle = "rgba(255,255,255,.9)";
  pen.lineWidth = 1.2 * ratio;
  const l = (left - start) * x, r = (right - start) * x, t = (top - first) * y, b = (bottom - first) * y;
  const arm = Math.min(10 * ratio, (r - l) / 3, (b - t) / 3);
  pen.beginPath();
  for (const [px, py, dx, dy] of [[l, t, 1, 1], [r, t, -1, 1], [l, b, 1, -1], [r, b, -1, -1]]) {
    pen.moveTo(px + dx * arm, py);
    pen.lineTo(px, py);
    pen.lineTo(px, py + dy * arm);
  }
  pen.stroke();
}

// Decisions.
function say(text, failed = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("failed", failed);
}
function showProgress() {
  const decided = allFindings.filter((finding) => ["accept", "keep"].includes(choiceOf(finding))).length;
  const later = allFindings.filter((finding) => choiceOf(finding) === "later").length;
  byId("progress").textContent = `${decided} of ${allFindings.length} findings decided${later ? `, ${later} for later` : ""}`;
}
async function decide(choice, goOn = true) {
  const finding = findingNow();
  if (!finding || busy || state.shared) return;
  if (!drawn) { say("This case is not to be seen yet.", true); return; }
  if (choice === "accept" && !finding.canAccept) { say("Nothing is suggested for this finding: keep it, or leave it for later.", true); return; }
  if (!served && !byId("reviewer").value.trim()) {
    say("Enter your name first: a decision is stored with it.", true);
    byId("reviewer").focus();
    return;
  }
  const reason = byId("comment").value.trim(), index = drawn.index;
  busy = true;
  try {
    const stored = served
      ? (await asked("decisions", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ case: index, finding: finding.id, choice, reason, shown: drawn.content.shown }) })).decision
      : { finding: finding.id, choice, reviewer: byId("reviewer").value.trim(), reason, shown: drawn.content.shown,
        time: new Date().toISOString().replace(/\.\d+Z$/, "+00:00") };
    decisions.set(finding.id, stored);
    if (!served) keepInBrowser();
    byId("comment").value = "";
    fillRow(index);
    showFindings();
    points[index].classList.toggle("decided", isDecided(state.cases[index]));
    showProgress();
    const kept = served ? "stored" : "kept in this browser until you download it";
    say(`${WORDS[choice]}: ${baseName(caseNow().image)}, ${kept}.`);
    if (goOn) step(1, true);
  } catch (error) {
    const reachable = !(error instanceof TypeError);
    say(`Not stored: ${reachable ? error.message : ENDED}`, true);
  } finally {
    busy = false;
  }
}
function step(by, openOnly = false) {
  let { position, finding } = current;
  const total = shownCases.length;
  for (;;) {
    finding += by;
    if (finding < 0) { position -= 1; if (position < 0) return; finding = state.cases[shownCases[position]].findings.length - 1; }
    if (finding >= state.cases[shownCases[position]].findings.length) { position += 1; finding = 0; }
    if (position >= total) { if (openOnly) say(`${byId("status").textContent} That was the last one.`); return; }
    const found = state.cases[shownCases[position]].findings[finding];
    if ((!openOnly || !choiceOf(found)) && (passes(found) || openOnly === false)) { select(position, finding); return; }
  }
}
function keepInBrowser() {
  try { localStorage.setItem(STORE, JSON.stringify([...decisions.values()])); } catch { /* Private windows keep nothing. */ }
}
function takeFromBrowser() {
  try {
    for (const one of JSON.parse(localStorage.getItem(STORE) || "[]")) decisions.set(one.finding, one);
  } catch { /* As above. */ }
}
function download() {
  const content = JSON.stringify({ version: 1, site: state.site, decisions: [...decisions.values()] }, null, 2);
  const address = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  const link = element("a", { href: address, download: `decisions-${state.site.replace(/[^\w.-]/g, "_")}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  say(`${decisions.size} decisions downloaded. The command fedannot audit apply takes the file.`);
}

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
    "aria-label": `Disagreement against uncertainty of ${state.cases.length + state.others.length} cases` });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { class: "grid", x1: plotX(0), x2: plotX(1), y1: plotY(value), y2: plotY(value) }),
      shape("text", { x: PLOT.left - 8, y: plotY(value) + 4, "text-anchor": "end" }, String(value)),
      shape("text", { x: plotX(value), y: PLOT.height - PLOT.bottom + 16, "text-anchor": "middle" }, String(value)));
  }
  svg.append(shape("line", { class: "axis", x1: plotX(0), x2: plotX(1), y1: plotY(0), y2: plotY(0) }),
    shape("text", { x: plotX(0.5), y: PLOT.height - 6, "text-anchor": "middle" }, "uncertainty of the model"),
    shape("text", { x: 14, y: plotY(0.5), "text-anchor": "middle", transform: `rotate(-90 14 ${plotY(0.5)})` },
      "disagreement with the annotation"));
  for (const [disagreement, uncertainty] of state.others)
    svg.append(shape("circle", { class: "other", cx: plotX(uncertainty), cy: plotY(disagreement), r: 3 }));
  points = state.cases.map((one, index) => {
    const point = shape("circle", { class: isDecided(one) ? "point decided" : "point", cx: plotX(one.uncertainty),
      cy: plotY(one.disagreement), r: 4.5 });
    point.append(shape("title", {}, `${baseName(one.image)}: ${one.findings[0].title}`));
    point.addEventListener("click", () => {
      if (!shownCases.includes(index)) { byId("filters").reset(); filterCases(); }
      select(shownCases.indexOf(index), 0, true);
      byId("cases").scrollIntoView();
    });
    svg.append(point);
    return point;
  });
  byId("plot").replaceChildren(svg);
  markPoint();
}
function markPoint() {
  byId("plot").querySelector(".selected")?.classList.remove("selected");
  points[shownCases[current.position]]?.classList.add("selected");
}

// Keys and controls.
function toggle(box) { box.checked = !box.checked; draw(); }
function moveSlice(by) {
  const last = Number(byId("slice").max), wanted = plane + by;
  if (!drawn || wanted < 0 || wanted > last) return;
  plane = wanted;
  byId("slice").value = plane;
  draw();
}
let hiddenLayers = null;
function hideLayers() {
  const boxes = ["given", "predicted", "suggested"].map((name) => byId(`layer-${name}`));
  if (hiddenLayers) boxes.forEach((box, index) => { box.checked = hiddenLayers[index]; });
  else { const before = boxes.map((box) => box.checked); boxes.forEach((box) => { box.checked = false; }); hiddenLayers = before; draw(); return; }
  hiddenLayers = null;
  draw();
}
const KEYS = {
  a: () => decide("accept"), k: () => decide("keep"), l: () => decide("later"), c: () => byId("comment").focus(),
  n: () => step(1), p: () => step(-1), "[": () => moveSlice(-1), "]": () => moveSlice(1), h: hideLayers,
  z: () => { if (!byId("zoom").parentElement.hidden) toggle(byId("zoom")); },
};
function storeComment() {
  const finding = findingNow();
  if (finding) decide(choiceOf(finding) || "later", false);
}
document.addEventListener("keydown", (event) => {
  const inText = event.target.matches("textarea, select, input:not([type='checkbox']):not([type='range'])");
  if (event.target === byId("comment") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    storeComment();
    byId("comment").blur();
    return;
  }
  if (event.key === "Escape" && inText) event.target.blur();
  if (inText || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  const act = KEYS[event.key];
  if (act && shownCases.length) { event.preventDefault(); act(); }
});
byId("list").addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const position = current.position + by;
  if (!by || position < 0 || position >= shownCases.length) return;
  event.preventDefault();
  select(position, 0, true);
});
for (const name of ["accept", "keep", "later"]) byId(name).addEventListener("click", () => decide(name));
byId("next").addEventListener("click", () => step(1));
byId("previous").addEventListener("click", () => step(-1));
byId("store-comment").addEventListener("click", storeComment);
byId("download").addEventListener("click", download);
byId("slice").addEventListener("input", () => { plane = Number(byId("slice").value); draw(); });
for (const name of ["layer-given", "layer-predicted", "layer-suggested", "zoom"]) byId(name).addEventListener("change", draw);
new ResizeObserver(() => draw()).observe(byId("views"));

// The start.
// A further address in the same tab is opened, as it would be in another one.
if (served) addEventListener("hashchange", () => { if (location.hash.length > 40) location.reload(); });
byId("review-bar").hidden = !state.cases.length || state.shared;
for (const name of ["accept", "keep", "later"]) byId(name).hidden = state.shared;
byId("reviewer-field").hidden = served;
byId("download").hidden = served;
byId("reviewing").textContent = served ? `Reviewing as ${state.reviewer}; every decision is stored at once.`
  : "Decisions are kept in this browser until you download them.";
if (!served && !state.shared) takeFromBrowser();
fillFilters();
showProgress();
drawPlot();
if (state.cases.length) { showList(); select(0, 0); } else {
  byId("filters").hidden = true;
  showNothing();
  byId("case-title").textContent = "No case has a finding.";
}
})();
