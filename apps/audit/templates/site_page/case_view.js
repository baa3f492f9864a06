// A case.
async function select(position, finding, focus = false) {
  const before = shownCases[current.position];
  current = { position, finding: Math.max(finding, 0) };
  const index = shownCases[position];
  for (const row of byId("list").querySelectorAll("[aria-current]")) {
    row.removeAttribute("aria-current");
    row.tabIndex = -1;
  }
  const { button } = rowOf(index);
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
      text: wordOf(finding, decision.choice) + (decision.reviewer ? ` by ${decision.reviewer}` : "") }));
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
  nameButtons(finding);
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
