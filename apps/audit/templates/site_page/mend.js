// Drawing: a case's mask is changed in the pixels of its file, and stored as a new file. The given one stays.
const NOT_DRAWN_ON = 255, PREVIEW_DELAY = 150;
// Drawings that are not stored yet, by the number of the case.
const drafts = new Map();
let draft = null;
let isDrawing = false;
let stroke = null;
let lasso = [];
let hover = null;
let preview = null;
let previewing = null;
let previewTimer = 0;

// A mask as it is drawn: planes are made when they are needed.
function makeDraft(index, content) {
  return { index, content, size: content.height * content.width, base: new Map(), planes: new Map(), past: [], future: [],
    stored: content.drawn?.id || "", cursor: null, suggestions: new Map() };
}
function decodedRuns(runs, size, kind = Uint8Array) {
  const values = new kind(size);
  for (let at = 0, pixel = 0; at < runs.length; at += 2) {
    if (runs[at]) values.fill(runs[at], pixel, pixel + runs[at + 1]);
    pixel += runs[at + 1];
  }
  return values;
}
function runsOf(plane) {
  const runs = [];
  for (let start = 0; start < plane.length;) {
    const label = plane[start];
    let end = start + 1;
    while (end < plane.length && plane[end] === label) end += 1;
    runs.push(label, end - start);
    start = end;
  }
  return runs;
}
function givenPlane(number) {
  if (!draft.base.has(number)) draft.base.set(number, decodedRuns(draft.content.planes[number], draft.size));
  return draft.base.get(number);
}
function planeOf(number) {
  if (!draft.planes.has(number)) {
    const runs = draft.content.drawn?.planes[number];
    draft.planes.set(number, runs ? decodedRuns(runs, draft.size) : givenPlane(number).slice());
  }
  return draft.planes.get(number);
}
const shownPlane = (number) => preview?.get(number) || planeOf(number);
function isSame(plane, other) {
  for (let at = 0; at < plane.length; at += 1) if (plane[at] !== other[at]) return false;
  return true;
}
// The planes that differ from the given annotation, as runs.
function changedPlanes(isWithPreview) {
  const changed = {}, numbers = new Set([...draft.planes.keys(), ...Object.keys(draft.content.drawn?.planes || {}).map(Number),
    ...(isWithPreview && preview ? preview.keys() : [])]);
  for (const number of numbers) {
    const plane = isWithPreview ? shownPlane(number) : planeOf(number), given = givenPlane(number);
    if (!isSame(plane, given)) changed[number] = runsOf(plane);
  }
  return changed;
}

// Starting, ending, and what is to be seen of it.
const canDraw = () => Boolean(draft && isDrawing && view.axis === drawn?.content.axis);
async function toggleDrawing() {
  if (!served || byId("mending").hidden) return;
  if (!drawn) { say("This case is not to be seen yet.", true); return; }
  if (isDrawing) { stopDrawing(); return; }
  if (isBlind()) { say("First say whether the annotation looks right or wrong.", true); return; }
  try {
    await useDraft(drawn.index);
  } catch (error) {
    say(`Drawing is not possible: ${error instanceof TypeError ? ENDED : error.message}`, true);
    return;
  }
  isDrawing = true;
  fillClasses();
  view.onPointer = { down: pointerStarts, move: pointerMoves, up: pointerEnds };
  showDrawing();
  if (byId("tool-suggestion").checked) chooseObjects();
}
function stopDrawing() {
  cancelStroke();
  hover = null;
  isDrawing = false;
  view.onPointer = null;
  showDrawing();
}
async function useDraft(index) {
  const { shown } = drawn.content;
  let own = drafts.get(index);
  if (!own || own.content.shown !== shown) {
    const content = await asked(`annotation/${index}`);
    const { grid } = view, { height, width, count } = content;
    if (content.shown !== shown) throw new Error("the annotation has changed since it was shown; load the page again.");
    if (grid.height !== height || grid.width !== width || grid.planes !== count)
      throw new Error("the annotation has another size than its image.");
    own = makeDraft(index, content);
    for (const [other, old] of drafts) if (!isUnstored(old)) drafts.delete(other);
    drafts.set(index, own);
  }
  if (drawn?.index === index) draft = own;
}
// A case is shown: what is drawn of it comes back, and a drawing of another one waits.
async function mendShown() {
  const { index, content } = drawn, before = draft;
  byId("mending").hidden = !served || !content.hasMasks;
  if (before?.index !== index) {
    leaveDrawing();
    const isDrawn = state.cases[index].findings.some((finding) => choiceOf(finding) === "edit");
    if (served && content.hasMasks && (drafts.has(index) || isDrawn))
      await useDraft(index).catch((error) => {
        if (drawn?.index === index) say(`The drawn mask cannot be shown: ${error instanceof TypeError ? ENDED : error.message}`, true);
      });
  }
  if (drawn?.index === index) showDrawing();
}
// The case is no longer to be seen; what was drawn of it waits there.
function leaveDrawing() {
  const before = draft;
  dropPreview();
  cancelStroke();
  draft = null;
  stopDrawing();
  if (!before || !isUnstored(before)) return;
  const name = baseName(state.cases[before.index].image), { textContent: said, classList } = byId("status");
  const waits = `The drawing of ${name} is not stored yet; it waits there.`, isNew = said.includes(name) && !said.includes(waits);
  say(isNew ? `${said} ${waits}` : waits, isNew && classList.contains("failed"));
}
// A stored mask that no decision names any more is not shown.
function forgetDrawing(index) {
  const own = drafts.get(index), { findings } = state.cases[index];
  if (!own?.stored || isUnstored(own) || findings.some((finding) => decisions.get(finding.id)?.mask === own.stored)) return;
  drafts.delete(index);
  if (draft !== own) return;
  draft = null;
  stopDrawing();
}
// All of it, or what a box of the present plane's pixels shows.
function showDrawing(box = null) {
  const isOn = isDrawing && Boolean(draft), has = Boolean(draft && (isUnstored(draft) || draft.stored || isOn));
  byId("mend").setAttribute("aria-expanded", String(isOn));
  byId("mend-tools").hidden = !isOn;
  byId("views").classList.toggle("drawing", isOn);
  byId("drawn-field").hidden = !has;
  byId("mend-note").textContent = !isOn ? (draft && isUnstored(draft) ? "This drawing is not stored yet." : "")
    : canDraw() ? "" : "Drawing is possible only on the planes that the annotator drew on; choose them as planes.";
  if (draft) {
    byId("mend-undo").disabled = !draft.past.length && !preview;
    byId("mend-redo").disabled = !draft.future.length || Boolean(preview);
    byId("mend-store").disabled = byId("mend-discard").disabled = !isUnstored(draft) && !preview;
    if (isOn) showObjects();
  }
  view.setLayer("drawn", has && drawn && view.axis === drawn.content.axis ? (number) => shownPlane(number) : null, box);
  showHand();
}
function fillClasses() {
  const { classes, labels, spacing } = draft.content, unit = spacing ? "mm" : "px";
  const named = labels.map((label) => [label, label ? classes[label - 1] || `class ${label}` : "background"]);
  const before = byId("mend-class").value;
  byId("mend-class").replaceChildren(...named.map(([label, name]) => option(label, name)));
  byId("mend-class").value = labels.some((label) => String(label) === before) ? before : String(labels.find((label) => label > 0));
  byId("mend-offset-class").replaceChildren(option("", "all classes"), ...named.filter(([label]) => label).map(([label, name]) => option(label, name)));
  const reach = spacing ? 10 : 20;
  byId("mend-offset").min = -reach;
  byId("mend-offset").max = reach;
  for (const place of byId("mend-tools").querySelectorAll(".mend-unit")) place.textContent = unit;
  showSizes();
}
function showSizes() {
  byId("mend-size-number").textContent = `${byId("mend-size").value} px`;
  const offset = Number(byId("mend-offset").value);
  byId("mend-offset-number").textContent = `${offset > 0 ? "+" : ""}${offset.toFixed(1)} ${draft?.content.spacing ? "mm" : "px"}`;
}

// Brush, eraser and lasso: pixels whose middle is within reach of the pointer's way, or within the loop.
const toolNow = () => document.querySelector("[name='mend-tool']:checked").value;
const labelNow = () => (toolNow() === "eraser" ? 0 : Number(byId("mend-class").value));
// Changes a plane, and returns the box of what it may have changed.
function stamp(edit, [r0, c0], [r1, c1], label) {
  const { plane, height, width } = edit, reach = Number(byId("mend-size").value) / 2, length = (r1 - r0) ** 2 + (c1 - c0) ** 2;
  const paint = (row, column) => {
    if (row < 0 || column < 0 || row >= height || column >= width) return;
    const at = row * width + column;
    if (plane[at] !== NOT_DRAWN_ON) plane[at] = label;
  };
  const rows = [Math.floor(Math.min(r0, r1) - reach), Math.ceil(Math.max(r0, r1) + reach)];
  const columns = [Math.floor(Math.min(c0, c1) - reach), Math.ceil(Math.max(c0, c1) + reach)];
  const box = touch(edit, rows, columns), [top, left, bottom, right] = box;
  for (let row = top; row < bottom; row += 1)
    for (let column = left; column < right; column += 1) {
      const y = row + 0.5 - r0, x = column + 0.5 - c0;
      const t = length ? Math.max(0, Math.min(1, (y * (r1 - r0) + x * (c1 - c0)) / length)) : 0;
      if ((y - t * (r1 - r0)) ** 2 + (x - t * (c1 - c0)) ** 2 <= reach ** 2) paint(row, column);
    }
  // The smallest brush paints the pixel under the pointer.
  paint(Math.floor(r1), Math.floor(c1));
  view.changed(plane, box);
  return box;
}
function fillLoop(edit, corners, label) {
  const { plane, height, width } = edit, sides = corners.map(([, column]) => column);
  const first = Math.max(0, Math.floor(Math.min(...corners.map(([row]) => row))));
  const last = Math.min(height - 1, Math.ceil(Math.max(...corners.map(([row]) => row))));
  const box = touch(edit, [first, last], [Math.floor(Math.min(...sides)), Math.ceil(Math.max(...sides))]);
  for (let row = first; row <= last; row += 1) {
    const y = row + 0.5, crossings = [];
    corners.forEach(([r0, c0], index) => {
      const [r1, c1] = corners[(index + 1) % corners.length];
      if ((r0 <= y) !== (r1 <= y)) crossings.push(c0 + ((y - r0) / (r1 - r0)) * (c1 - c0));
    });
    crossings.sort((a, b) => a - b);
    for (let index = 0; index + 1 < crossings.length; index += 2) {
      const end = Math.min(width, Math.ceil(crossings[index + 1] - 0.5));
      for (let column = Math.max(0, Math.ceil(crossings[index] - 0.5)); column < end; column += 1)
        if (plane[row * width + column] !== NOT_DRAWN_ON) plane[row * width + column] = label;
    }
  }
  view.changed(plane, box);
}
let pressed = null;
function pointerStarts(row, column) {
  if (!canDraw()) { showDrawing(); return; }
  keepPreview();
  const tool = toolNow();
  // An object is taken when the pointer goes up: a second finger zooms instead.
  if (tool === "suggestion") { pressed = [row, column]; return; }
  if (stroke) cancelStroke();
  stroke = { tool, edit: beginEdit(view.plane), last: [row, column] };
  if (tool === "lasso") lasso = [[row, column]];
  else drawSoon(stamp(stroke.edit, [row, column], [row, column], labelNow()));
  placeCursor(row, column);
}
function pointerMoves(row, column, event) {
  hover = [row, column];
  if (stroke) {
    // What the pointer has done since the last event.
    const way = event.getCoalescedEvents?.().map((one) => view.toPixel({ target: event.target, clientX: one.clientX, clientY: one.clientY })) || [];
    for (const point of way.length ? way : [[row, column]]) {
      if (stroke.tool === "lasso") lasso.push(point);
      else drawSoon(stamp(stroke.edit, stroke.last, point, labelNow()));
      stroke.last = point;
    }
  }
  showHand();
}
function pointerEnds(row, column, event) {
  const at = pressed;
  pressed = null;
  if (at && event.type === "pointerup" && toolNow() === "suggestion" && draft) toggleObjectAt(...at);
  if (!stroke) return;
  const { tool, edit } = stroke;
  if (event.type !== "pointerup") cancelStroke();
  stroke = null;
  if (tool === "lasso") closeLasso(edit); else if (!endEdit(tool, edit)) showDrawing(edit.box);
}
function closeLasso(edit = beginEdit(view.plane)) {
  if (lasso.length > 2) {
    fillLoop(edit, lasso, Number(byId("mend-class").value));
    endEdit("lasso", edit);
  }
  lasso = [];
  showHand();
}

// The cursor, for keys alone.
function placeCursor(row, column) {
  const { height, width } = draft.content;
  draft.cursor = [Math.max(0, Math.min(height - 1, Math.floor(row))), Math.max(0, Math.min(width - 1, Math.floor(column)))];
}
function cursorNow() {
  if (!draft.cursor) placeCursor(draft.content.height / 2, draft.content.width / 2);
  return draft.cursor;
}
function sayCursor() {
  const [row, column] = cursorNow(), { width, classes } = draft.content, label = shownPlane(view.plane)[row * width + column];
  const name = label === NOT_DRAWN_ON ? "ignored" : label ? classes[label - 1] : "background";
  byId("mend-cursor").textContent = `Row ${row + 1}, column ${column + 1}: ${name}`;
}
function keyOnCursor(event) {
  if (!canDraw() || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const [row, column] = cursorNow(), middle = [row + 0.5, column + 0.5];
  if (by) {
    const step = event.shiftKey ? 10 : 1;
    placeCursor(row + by[0] * step, column + by[1] * step);
  } else if (event.key === " ") {
    const tool = toolNow();
    if (stroke) return;
    keepPreview();
    if (tool === "suggestion") toggleObjectAt(...middle);
    else if (tool === "lasso") lasso.push(middle);
    else {
      const edit = beginEdit(view.plane);
      stamp(edit, middle, middle, labelNow());
      endEdit(tool, edit);
    }
  } else if (event.key === "Enter") closeLasso();
  else return;
  event.preventDefault();
  event.stopPropagation();
  hover = cursorNow().map((own) => own + 0.5);
  sayCursor();
  showHand();
}

// The object at the cursor: pixels of its class that touch, also by a corner.
function objectAt(plane, [row, column]) {
  const { height, width } = draft.content, start = row * width + column, label = plane[start];
  if (!label || label === NOT_DRAWN_ON) return null;
  const inside = new Set([start]), open = [start];
  while (open.length) {
    const at = open.pop(), r = Math.floor(at / width), c = at % width;
    for (let y = Math.max(0, r - 1); y <= Math.min(height - 1, r + 1); y += 1)
      for (let x = Math.max(0, c - 1); x <= Math.min(width - 1, c + 1); x += 1) {
        const next = y * width + x;
        if (plane[next] === label && !inside.has(next)) { inside.add(next); open.push(next); }
      }
  }
  return { label, inside };
}
function* besides(at) {
  const { height, width } = draft.content, row = Math.floor(at / width), column = at % width;
  if (row > 0) yield at - width;
  if (row < height - 1) yield at + width;
  if (column > 0) yield at - 1;
  if (column < width - 1) yield at + 1;
}
const OBJECT_CHANGES = {
  "object-grow": (plane, { label, inside }) => {
    for (const at of inside) for (const next of besides(at)) if (!plane[next]) plane[next] = label;
  },
  "object-shrink": (plane, { inside }) => {
    for (const at of [...inside]) if ([...besides(at)].some((next) => !inside.has(next))) plane[at] = 0;
  },
  "object-fill": (plane, { label, inside }) => fillHoles(plane, label, inside),
  "object-class": (plane, { inside }) => { for (const at of inside) plane[at] = Number(byId("mend-class").value); },
  "object-remove": (plane, { inside }) => { for (const at of inside) plane[at] = 0; },
};
// Background within the object's box that does not reach the box's border beside the object.
function fillHoles(plane, label, inside) {
  const { width } = draft.content;
  let [top, bottom, left, right] = [Infinity, -1, Infinity, -1];
  for (const at of inside) {
    const row = Math.floor(at / width), column = at % width;
    [top, bottom] = [Math.min(top, row), Math.max(bottom, row)];
    [left, right] = [Math.min(left, column), Math.max(right, column)];
  }
  const outside = new Set(), open = [];
  const enter = (row, column) => {
    const at = row * width + column;
    if (row < top || row > bottom || column < left || column > right || inside.has(at) || outside.has(at)) return;
    outside.add(at);
    open.push(at);
  };
  for (let row = top; row <= bottom; row += 1) { enter(row, left); enter(row, right); }
  for (let column = left; column <= right; column += 1) { enter(top, column); enter(bottom, column); }
  while (open.length) {
    const at = open.pop(), row = Math.floor(at / width), column = at % width;
    enter(row - 1, column);
    enter(row + 1, column);
    enter(row, column - 1);
    enter(row, column + 1);
  }
  for (let row = top; row <= bottom; row += 1) for (let column = left; column <= right; column += 1) {
    const at = row * width + column;
    if (!plane[at] && !outside.has(at)) plane[at] = label;
  }
}
function changeObject(name) {
  if (!canDraw() || stroke) return;
  keepPreview();
  const plane = planeOf(view.plane).slice(), object = objectAt(plane, cursorNow());
  if (!object) { say("There is no object at the cursor: click on one, or move the cursor by its arrows.", true); return; }
  OBJECT_CHANGES[name](plane, object);
  if (!change("object", [[view.plane, plane]])) say("This changes nothing.");
}

// Offset and shift: the server moves the contours as in a correction; nothing is stored.
function dropPreview() {
  clearTimeout(previewTimer);
  preview = previewing = null;
  for (const name of ["mend-offset", "mend-down", "mend-right"]) byId(name).value = 0;
  showSizes();
}
function keepPreview() {
  if (!preview) return false;
  const planes = [...preview], tool = Number(byId("mend-offset").value) ? "offset" : "shift";
  dropPreview();
  return change(tool, planes);
}
function previewSoon() {
  showSizes();
  clearTimeout(previewTimer);
  const wanted = { distance: Number(byId("mend-offset").value), shift: [Number(byId("mend-down").value), Number(byId("mend-right").value)] };
  if (byId("mend-offset-class").value) wanted.label = Number(byId("mend-offset-class").value);
  const isAny = wanted.distance || wanted.shift.some(Boolean);
  const mine = previewing = new Promise((resolve) => { previewTimer = setTimeout(resolve, PREVIEW_DELAY); }).then(async () => {
    if (mine !== previewing) return;
    const { planes } = isAny ? await sent("move", { ...postedMask(changedPlanes(false)), ...wanted }) : { planes: {} };
    if (mine !== previewing) return;
    preview = isAny ? new Map(Object.entries(planes).map(([number, runs]) => [Number(number), decodedRuns(runs, draft.size)])) : null;
    if (preview && !preview.size) preview = null;
    previewing = null;
    showDrawing();
  }).catch((error) => {
    if (mine !== previewing) return;
    dropPreview();
    say(`Not moved: ${error instanceof TypeError ? ENDED : error.message}`, true);
    showDrawing();
  });
}
function postedMask(planes) {
  const { shown, count, height, width } = draft.content, tools = [...new Set(draft.past.map(({ tool }) => tool))];
  return { case: draft.index, finding: findingNow().id, shown, count, height, width, planes, tools };
}

// The objects of the marked finding's suggestion, each taken or left.
async function chooseObjects() {
  const finding = findingNow(), own = draft;
  if (!finding?.canAccept) { say("Nothing is suggested for this finding.", true); showObjects(); return; }
  if (!own.suggestions.has(finding.id)) {
    try {
      const content = await asked(`suggestion/${own.index}/${current.finding}`);
      const suggested = new Map(), numbers = new Map();
      for (const [number, runs] of Object.entries(content.suggested)) suggested.set(Number(number), decodedRuns(runs, own.size));
      for (const [number, runs] of Object.entries(content.numbers)) numbers.set(Number(number), decodedRuns(runs, own.size, Uint16Array));
      own.suggestions.set(finding.id, { objects: content.objects, suggested, numbers, pixels: pixelsByObject(numbers) });
    } catch (error) {
      say(`The suggestion's objects cannot be shown: ${error instanceof TypeError ? ENDED : error.message}`, true);
      return;
    }
  }
  if (own === draft) showObjects();
}
const suggestionNow = () => (toolNow() === "suggestion" && findingNow() ? draft.suggestions.get(findingNow().id) : undefined);
// The pixels of each object, by its number and that of the plane.
function pixelsByObject(numbers) {
  const pixels = new Map();
  for (const [plane, own] of numbers) for (let at = 0; at < own.length; at += 1) if (own[at]) {
    if (!pixels.has(own[at])) pixels.set(own[at], new Map());
    const planes = pixels.get(own[at]);
    if (!planes.has(plane)) planes.set(plane, []);
    planes.get(plane).push(at);
  }
  return pixels;
}
function isTaken({ suggested, pixels }, { number }) {
  for (const [plane, own] of pixels.get(number) || []) {
    const now = planeOf(plane), wanted = suggested.get(plane);
    if (own.some((at) => now[at] !== wanted[at])) return false;
  }
  return true;
}
function showObjects() {
  const suggestion = suggestionNow();
  byId("mend-objects").hidden = !suggestion;
  if (!suggestion) return;
  const { classes } = draft.content, marked = document.activeElement?.dataset?.object;
  byId("mend-object-list").replaceChildren(...suggestion.objects.map((object) => {
    const box = element("input", { type: "checkbox", "data-object": object.number });
    box.checked = isTaken(suggestion, object);
    box.addEventListener("change", () => toggleObject(object));
    box.addEventListener("focus", () => { if (view.plane !== object.plane) showPlane(object.plane); hover = [object.row + 0.5, object.column + 0.5]; showHand(); });
    const where = draft.content.count > 1 ? `slice ${object.plane + 1}, ` : "";
    const what = object.becomes ? classes[object.becomes - 1] : "background";
    return element("li", {}, element("label", {}, box,
      ` ${where}row ${object.row + 1}, column ${object.column + 1}: ${object.pixels} ${draft.content.count > 1 ? "voxels" : "pixels"} become ${what}`));
  }));
  if (marked) byId("mend-object-list").querySelector(`[data-object="${marked}"]`)?.focus();
}
function toggleObject(object) {
  const suggestion = suggestionNow(), isOn = isTaken(suggestion, object), planes = [];
  keepPreview();
  for (const [number, own] of suggestion.pixels.get(object.number) || []) {
    const plane = planeOf(number).slice(), wanted = isOn ? givenPlane(number) : suggestion.suggested.get(number);
    for (const at of own) plane[at] = wanted[at];
    planes.push([number, plane]);
  }
  change("suggestion", planes);
}
function toggleObjectAt(row, column) {
  const suggestion = suggestionNow(), number = suggestion?.numbers.get(view.plane)?.[Math.floor(row) * draft.content.width + Math.floor(column)];
  const object = number && suggestion.objects.find((one) => one.number === number);
  if (object) toggleObject(object); else say("The suggestion changes nothing there.");
}

// What is stored is what is to be seen.
async function storeDrawing() {
  if (!draft || !isDrawing || busy || stroke) return;
  await previewing;
  keepPreview();
  const own = draft;
  if (!isUnstored(own)) { say("Nothing was drawn that could be stored.", true); return; }
  const planes = changedPlanes(false);
  say("Storing the drawn mask …");
  busy = true;
  let mask;
  try {
    mask = (await sent("mask", postedMask(planes))).mask;
  } catch (error) {
    say(`Not stored: ${error instanceof TypeError ? ENDED : error.message}`, true);
    return;
  } finally {
    busy = false;
  }
  if (draft !== own || !(await decide("edit", false, mask))) return;
  own.content.drawn = { id: mask, planes };
  own.planes.clear();
  own.stored = mask;
  own.past = [];
  own.future = [];
  stopDrawing();
}
async function discardDrawing() {
  if (!draft || !(await asks("All that was drawn since it was stored last is discarded.", "Discard"))) return;
  dropPreview();
  draft.planes.clear();
  draft.past = [];
  draft.future = [];
  forgetDrawing(draft.index);
  stopDrawing();
}
addEventListener("beforeunload", (event) => {
  if ([...drafts.values()].some(isUnstored)) event.preventDefault();
});

// The hand over the image: how far the brush reaches, and the loop.
function toPage() {
  const canvas = byId("view-given"), box = canvas.parentElement.getBoundingClientRect();
  const [r0, c0] = view.toPixel({ target: canvas, clientX: box.left, clientY: box.top });
  const [r1, c1] = view.toPixel({ target: canvas, clientX: box.left + 100, clientY: box.top + 100 });
  return { rows: 100 / (r1 - r0), columns: 100 / (c1 - c0), top: r0, left: c0 };
}
function showHand() {
  const hand = byId("mend-hand"), isOn = canDraw() && (hover !== null || lasso.length > 0);
  hand.toggleAttribute("hidden", !isOn);
  if (!isOn) return;
  const at = toPage(), x = (column) => (column - at.left) * at.columns, y = (row) => (row - at.top) * at.rows;
  const ring = byId("mend-ring"), isBrush = ["brush", "eraser"].includes(toolNow()), reach = isBrush ? Number(byId("mend-size").value) / 2 : 0.5;
  const [row, column] = hover || lasso.at(-1);
  for (const [name, value] of [["cx", x(column)], ["cy", y(row)], ["rx", reach * at.columns], ["ry", reach * at.rows]]) ring.setAttribute(name, value);
  byId("mend-loop").setAttribute("points", lasso.map(([r, c]) => `${x(c)},${y(r)}`).join(" "));
}

// Controls and keys.
function useTool(name) {
  if (!isDrawing) return;
  byId(`tool-${name}`).checked = true;
  lasso = [];
  showDrawing();
  if (name === "suggestion") chooseObjects();
}
Object.assign(KEYS, {
  e: toggleDrawing, u: undoDecision, b: () => useTool("brush"), r: () => useTool("eraser"), o: () => useTool("lasso"),
  q: () => useTool("suggestion"), s: storeDrawing, ",": () => resize(-1), ".": () => resize(1),
});
function resize(by) {
  if (!isDrawing) return;
  byId("mend-size").value = Number(byId("mend-size").value) + by;
  showSizes();
  showHand();
}
document.addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
  if (event.target.matches("textarea, input:not([type='checkbox']):not([type='radio']):not([type='range'])")) return;
  event.preventDefault();
  if (isDrawing) { if (key === "y" || event.shiftKey) redoDrawing(); else undoDrawing(); }
  else if (key === "z" && !event.shiftKey) undoDecision();
});
byId("mend").addEventListener("click", toggleDrawing);
byId("undo").addEventListener("click", undoDecision);
byId("mend-undo").addEventListener("click", undoDrawing);
byId("mend-redo").addEventListener("click", redoDrawing);
byId("mend-store").addEventListener("click", storeDrawing);
byId("mend-discard").addEventListener("click", discardDrawing);
for (const name of Object.keys(OBJECT_CHANGES)) byId(name).addEventListener("click", () => changeObject(name));
for (const box of document.querySelectorAll("[name='mend-tool']")) box.addEventListener("change", () => useTool(box.value));
byId("mend-size").addEventListener("input", () => { showSizes(); showHand(); });
for (const name of ["mend-offset", "mend-offset-class", "mend-down", "mend-right"]) byId(name).addEventListener("input", previewSoon);
byId("layer-drawn").addEventListener("change", () => view.redraw());
byId("mend-cursor").addEventListener("keydown", keyOnCursor);
byId("mend-cursor").addEventListener("focus", () => { hover = cursorNow().map((own) => own + 0.5); sayCursor(); showHand(); });
byId("view-given").addEventListener("pointerleave", () => { if (!stroke) { hover = null; showHand(); } });
for (const name of ["wheel", "keyup"]) document.addEventListener(name, () => { if (isDrawing) requestAnimationFrame(showHand); }, { passive: true });
byId("axis")?.addEventListener("change", () => showDrawing());
view.onShown = mendShown;
