// The viewer: planes of a case that are zoomed, moved and windowed, with annotations on them.
const LARGEST_ZOOM = 64, LARGEST_SCALE = 64, CLICK = 4;
let source = null;
let shownIndex = -1;
let shownFinding = 0;
let cross = [0, 0, 0];
let windowNow = [0, 255];
let ruler = null;
const overrides = new Map();
// Counts what was drawn on masks.
let revision = 0;
const ports = [null, null, null];
const firstLooks = new Map();
const view = {
  grid: null, plane: 0, axis: 2, onPointer: null, onShown: null,
  // Fractional, in pixels of the plane that is shown: the middle of the first pixel is 0.5.
  toPixel(event) {
    const pane = panes.find(({ canvas }) => canvas === event.target) || panes[0];
    return pixelAt(pane, event);
  },
  // What is drawn in place of an annotation, or beside them, on planes across the present axis. Of one that is drawn
  // already a box of pixels may be named, outside of which it is as before.
  setLayer(name, classesOfPlane, box = null) {
    const isDrawn = classesOfPlane && overrides.get(name)?.axis === view.axis;
    if (classesOfPlane) overrides.set(name, { classesOfPlane, axis: view.axis });
    else overrides.delete(name);
    revision += 1;
    view.redraw(isDrawn ? box : null);
  },
  // All, or a box of the plane's pixels: top, left, bottom, right.
  redraw(box = null) { draw(box); },
  // The classes of a plane have changed in a box of its pixels: what is kept of them there is made again.
  changed(mask, [top, left, bottom, right]) {
    const parts = partsOf.get(mask);
    revision += 1;
    for (const [key, { scale, row, column }] of parts || []) {
      // What a cell shows depends on the cells around it, and on those around them.
      const side = PART * scale, margin = 3 * scale, y = row * side, x = column * side;
      if (y - margin < bottom && y + side + margin > top && x - margin < right && x + side + margin > left) parts.delete(key);
    }
  },
  // The classes of a plane as they are in the files: given, predicted or suggested; null where there are none.
  async classesOf(layer, planeIndex = view.plane) {
    return hasLayer(layer) ? loadedMask(layer, view.axis, planeIndex) : null;
  },
};
const otherAxes = () => [2, 1, 0].filter((axis) => axis !== view.axis && source?.content.axes[axis]);
const panes = [
  { canvas: byId("view-given"), axis: () => view.axis, layers: ["predicted", "given"], isMain: true },
  { canvas: byId("view-suggested"), axis: () => view.axis, layers: ["predicted", "suggested"], isMain: true },
  { canvas: byId("view-second"), axis: () => otherAxes()[0], layers: ["predicted", "given", "suggested"] },
  { canvas: byId("view-third"), axis: () => otherAxes()[1], layers: ["predicted", "given", "suggested"] },
];
const gridOf = (axis) => source.content.axes[axis];
const aspectOf = (grid) => grid.aspect ?? (grid.spacing ? grid.spacing[0] / grid.spacing[1] : 1);
const isShown = (pane) => source !== null && pane.axis() !== undefined && !pane.canvas.closest("figure").hidden;
const isBlind = () => Boolean(source?.content.hasMasks) && byId("blind").checked && !firstLooks.has(shownIndex);
function hasLayer(layer) {
  if (!source?.content.hasMasks) return false;
  if (layer === "predicted") return source.content.hasPrediction;
  return layer === "given" || Boolean(source.content.findings[shownFinding]?.hasSuggestion);
}
function isLayerShown(layer) {
  if (overrides.has(layer)) return byId(`layer-${layer}`)?.checked ?? true;
  return hasLayer(layer) && byId(`layer-${layer}`).checked && (layer === "given" || !isBlind());
}

// Where pixels are. A port shows a pixel at its middle; zoom is the width of a pixel's column on the page.
function pixelAt(pane, event) {
  const box = pane.canvas.getBoundingClientRect(), axis = pane.axis(), port = ports[axis];
  return [port.row + (event.clientY - box.top - box.height / 2) / (port.zoom * aspectOf(gridOf(axis))),
    port.column + (event.clientX - box.left - box.width / 2) / port.zoom];
}
function crossOn(axis) {
  const columnAxis = axis === 0 ? 1 : 0;
  return [axis === 2 ? cross[1] : gridOf(axis).height - 1 - cross[2], cross[columnAxis]];
}
function moveCross(axis, row, column) {
  const { height, width } = gridOf(axis);
  const r = Math.max(0, Math.min(height - 1, Math.floor(row))), c = Math.max(0, Math.min(width - 1, Math.floor(column)));
  cross = [...cross];
  if (axis === 2) cross[1] = r; else cross[2] = height - 1 - r;
  cross[axis === 0 ? 1 : 0] = c;
}
function fitZoom(axis, pane, box) {
  const grid = gridOf(axis), { width, height } = sizeOf(pane);
  return Math.min(width / (box[3] - box[1]), height / ((box[2] - box[0]) * aspectOf(grid)));
}
function showBox(axis, box) {
  const pane = panes.find((own) => isShown(own) && own.axis() === axis);
  if (!pane) return;
  ports[axis] = { row: (box[0] + box[2]) / 2, column: (box[1] + box[3]) / 2, zoom: Math.min(fitZoom(axis, pane, box), LARGEST_ZOOM), box };
}
const wholePlane = (axis) => [0, 0, gridOf(axis).height, gridOf(axis).width];
function fitViews() {
  const box = byId("zoom").checked && !isBlind() && source.content.findings[shownFinding]?.box;
  showBox(view.axis, box || wholePlane(view.axis));
  for (const axis of otherAxes()) showBox(axis, wholePlane(axis));
}
function zoomAt(axis, factor, row, column) {
  const port = ports[axis], pane = panes.find((own) => isShown(own) && own.axis() === axis);
  if (!port || !pane) return;
  const least = Math.min(fitZoom(axis, pane, wholePlane(axis)), 1) / 2;
  const zoom = Math.max(least, Math.min(LARGEST_ZOOM, port.zoom * factor)), change = 1 - port.zoom / zoom;
  moveTo(axis, port.row + (row - port.row) * change, port.column + (column - port.column) * change, zoom);
}
function moveTo(axis, row, column, zoom = ports[axis].zoom) {
  const { height, width } = gridOf(axis);
  ports[axis] = { zoom, row: Math.max(0, Math.min(height, row)), column: Math.max(0, Math.min(width, column)), box: null };
  draw();
}

// What is drawn.
function sizeOf(pane) {
  const grid = gridOf(pane.axis()), width = Math.max(pane.canvas.closest("figure").clientWidth, 120);
  const tallest = pane.isMain ? Math.max(240, 0.62 * window.innerHeight) : Math.max(160, 0.32 * window.innerHeight);
  const height = Math.min(tallest, (width * grid.height * aspectOf(grid)) / grid.width);
  return { width, height: Math.max(height, 90) };
}
const tileKey = (axis, number, scale, row, column) => `${shownIndex} ${source.content.version} ${source.content.channel} ${axis} ${number} ${scale} ${row} ${column}`;
function tileOf(axis, number, scale, row, column) {
  const own = source, grid = gridOf(axis), side = own.content.tile;
  const rows = Math.min(side, Math.ceil((grid.height - row * side * scale) / scale));
  const columns = Math.min(side, Math.ceil((grid.width - column * side * scale) / scale));
  return tiles.get(tileKey(axis, number, scale, row, column), async () => ({
    values: await own.tile(axis, number, scale, row, column), width: columns, height: rows, key: "", canvas: null,
  }), () => drawArrived(axis === view.axis ? [row, column, row + 1, column + 1].map((own) => own * side * scale) : null), viewFailed);
}
const maskKey = (layer, axis, number) => maskKeyOf(shownIndex, source.content, layer, shownFinding, axis, number);
function maskOf(layer, axis, number) {
  const own = source, finding = shownFinding;
  return masks.get(maskKey(layer, axis, number), () => own.mask(layer, finding, axis, number), () => drawArrived(), viewFailed);
}
async function loadedMask(layer, axis, number) {
  return maskOf(layer, axis, number) ?? masks.promise(maskKey(layer, axis, number));
}
// The classes that are drawn.
function drawnMask(layer, axis, number) {
  const own = overrides.get(layer);
  if (own && own.axis === axis) {
    const mask = own.classesOfPlane(number);
    if (mask) return mask;
  }
  return hasLayer(layer) ? maskOf(layer, axis, number) : null;
}
// Boxes of pixels: top, left, bottom, right.
const united = (box, other) => [Math.min(box[0], other[0]), Math.min(box[1], other[1]), Math.max(box[2], other[2]), Math.max(box[3], other[3])];
// With the next frame: all, or what a box of the present plane's pixels shows.
let soon = null;
function drawSoon(box = null) {
  const isAsked = soon !== null;
  soon = { box: isAsked ? soon.box && box && united(soon.box, box) : box };
  if (!isAsked) requestAnimationFrame(() => {
    const { box: own } = soon;
    soon = null;
    draw(own);
  });
}
// What comes of a case that is being opened is drawn as a whole once all is there, or else in steps.
const ARRIVING = 150;
let isOpening = false;
let arriving = 0;
function drawArrived(box = null) {
  if (isOpening) arriving ||= setTimeout(() => { arriving = 0; drawSoon(); }, ARRIVING);
  // What makes annotations draws all in the end.
  else if (!making) drawSoon(box);
}
function viewFailed(error) {
  if (drawn) showProblem(error instanceof TypeError ? ENDED : error.message);
}
// All that is shown, or what a box of the present plane's pixels shows.
function draw(box = null) {
  if (!source || byId("views").hidden) return;
  view.plane = plane = cross[view.axis];
  byId("slice-number").textContent = `${plane + 1} of ${view.grid.planes}`;
  if (!box) {
    making = null;
    clearTimeout(arriving);
    arriving = 0;
  }
  makingUntil = performance.now() + ANSWERING;
  partsKept = MAX_PARTS;
  for (const pane of panes) if (isShown(pane)) paint(pane, pane.axis() === view.axis ? box : null);
  makeSoon();
  showReadout();
}
function paint(pane, box) {
  const { canvas } = pane, axis = pane.axis(), number = cross[axis], grid = gridOf(axis), { width, height } = sizeOf(pane);
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const isResized = canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio);
  if (isResized) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
  }
  if (ports[axis]?.box) showBox(axis, ports[axis].box);
  if (!ports[axis]) showBox(axis, wholePlane(axis));
  // A finger scrolls the page where there is nothing to move.
  canvas.style.touchAction = ports[axis].box && !view.onPointer && !byId("ruler").checked ? "pan-y" : "none";
  const port = ports[axis], pen = canvas.getContext("2d"), x = port.zoom * ratio, y = x * aspectOf(grid);
  const at = { x, y, ratio, left: canvas.width / 2 - port.column * x, top: canvas.height / 2 - port.row * y };
  const scale = source.isWritten ? 1 : Math.min(LARGEST_SCALE, 2 ** Math.max(0, Math.floor(Math.log2(1 / Math.max(x, y)))));
  const isWhole = isResized || !box, sight = isWhole ? { left: 0, top: 0, right: canvas.width, bottom: canvas.height } : sightOf(box, at, scale, canvas);
  if (sight.left >= sight.right || sight.top >= sight.bottom) return;
  if (!isWhole) {
    pen.save();
    pen.beginPath();
    pen.rect(sight.left, sight.top, sight.right - sight.left, sight.bottom - sight.top);
    pen.clip();
  }
  // A line reaches beyond its part.
  const wider = { left: sight.left - LINE * ratio, top: sight.top - LINE * ratio, right: sight.right + LINE * ratio, bottom: sight.bottom + LINE * ratio };
  const names = [...pane.layers, ...[...overrides.keys()].filter((name) => !COLOURS[name])].filter(isLayerShown);
  const masksShown = names.map((layer) => ({ layer, mask: drawnMask(layer, axis, number) })).filter(({ mask }) => mask);
  const jobs = masksShown.map(({ layer, mask }) => partsShown(layer, mask, grid, scale, wider, at));
  const what = [revision, shownIndex, shownFinding, source.content.version, source.content.channel, axis, number, windowNow, byId("fill").checked,
    byId("opacity").value, byId("crosshair").checked, isBlind(), ...masksShown.map(({ layer }) => layer)].join();
  // Of the same at another place the picture before is stretched until annotations are made.
  const before = isWhole && !isResized && pane.drawn?.what === what && !jobs.every((job) => job.isMade) ? copyOf(canvas) : null;
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.imageSmoothingEnabled = x < 3 * ratio;
  pen.imageSmoothingQuality = "high";
  for (const part of partsInSight(sight, grid, at, source.content.tile * scale)) paintTile(pen, axis, number, scale, part, at);
  if (before) stretch(pen, before, pane.drawn, at);
  else {
    for (const job of jobs) paintLayer(pen, job, at);
    paintMarks(pane, pen, axis, grid, at);
  }
  if (!isWhole) pen.restore();
  else pane.drawn = { ...at, what };
}
function copyOf(canvas) {
  const copy = element("canvas", { width: canvas.width, height: canvas.height });
  copy.getContext("2d").drawImage(canvas, 0, 0);
  return copy;
}
function stretch(pen, before, was, at) {
  const x = at.x / was.x, y = at.y / was.y;
  pen.drawImage(before, at.left - was.left * x, at.top - was.top * y, before.width * x, before.height * y);
}
const LINE = 6;
// What of a canvas shows a box of pixels, with the lines around it and all of the cells that it touches.
function sightOf([top, left, bottom, right], at, scale, canvas) {
  const margin = LINE * at.ratio, x = 3 * scale * at.x + margin, y = 3 * scale * at.y + margin;
  return { left: Math.max(0, Math.floor(at.left + left * at.x - x)), top: Math.max(0, Math.floor(at.top + top * at.y - y)),
    right: Math.min(canvas.width, Math.ceil(at.left + right * at.x + x)), bottom: Math.min(canvas.height, Math.ceil(at.top + bottom * at.y + y)) };
}
// Squares of a plane, of so many pixels a side, that a part of a canvas shows.
function* partsInSight(sight, grid, at, side) {
  const range = (from, step, low, high, extent) => [Math.max(0, Math.floor((low - from) / step / side)),
    Math.min(Math.ceil(extent / side) - 1, Math.floor((high - from) / step / side))];
  const [firstRow, lastRow] = range(at.top, at.y, sight.top, sight.bottom, grid.height);
  const [firstColumn, lastColumn] = range(at.left, at.x, sight.left, sight.right, grid.width);
  for (let row = firstRow; row <= lastRow; row += 1)
    for (let column = firstColumn; column <= lastColumn; column += 1) yield { row, column };
}
function paintTile(pen, axis, number, scale, { row, column }, at) {
  const { content, isWritten } = source, side = content.tile, tile = tileOf(axis, number, scale, row, column);
  if (tile) {
    const left = Math.round(at.left + column * side * scale * at.x), top = Math.round(at.top + row * side * scale * at.y);
    // The last cells may be of fewer pixels than they are wide.
    const right = Math.round(at.left + (column * side + tile.width) * scale * at.x);
    const bottom = Math.round(at.top + (row * side + tile.height) * scale * at.y);
    pen.drawImage(renderedTile(tile, windowNow, content, isWritten), left, top, right - left, bottom - top);
    return;
  }
  for (let coarse = scale * 2, step = 2; coarse <= LARGEST_SCALE; coarse *= 2, step *= 2) {
    const known = tiles.peek(tileKey(axis, number, coarse, Math.floor(row / step), Math.floor(column / step)));
    if (!known) continue;
    const part = side / step, left = (column % step) * part, top = (row % step) * part;
    pen.drawImage(renderedTile(known, windowNow, content, isWritten), left, top, part, part, at.left + column * side * scale * at.x,
      at.top + row * side * scale * at.y, side * scale * at.x, side * scale * at.y);
    return;
  }
}
function paintMarks(pane, pen, axis, grid, at) {
  const [row, column] = crossOn(axis), { ratio } = at;
  const place = source.content.findings[shownFinding];
  if (pane.isMain && place?.box && place.box !== ports[axis].box && !isBlind()) bracket(pen, place.box, at);
  if (byId("crosshair").checked) {
    const x = at.left + (column + 0.5) * at.x, y = at.top + (row + 0.5) * at.y, gap = 8 * ratio;
    pen.lineWidth = ratio;
    for (const [colour, shift] of [["rgba(0,0,0,.6)", ratio], ["#fff", 0]]) {
      pen.strokeStyle = colour;
      pen.beginPath();
      for (const [x0, y0, x1, y1] of [[0, y, x - gap, y], [x + gap, y, pen.canvas.width, y], [x, 0, x, y - gap], [x, y + gap, x, pen.canvas.height]]) {
        pen.moveTo(x0 + shift, y0 + shift);
        pen.lineTo(x1 + shift, y1 + shift);
      }
      pen.stroke();
    }
  }
  if (ruler && ruler.axis === axis && ruler.plane === cross[axis]) paintRuler(pen, grid, at);
  write(pen, grid.letters[0], 4 * ratio, pen.canvas.height / 2, ratio);
  write(pen, grid.letters[1], pen.canvas.width - 14 * ratio, pen.canvas.height / 2, ratio);
  write(pen, grid.letters[3], pen.canvas.width / 2, pen.canvas.height - 5 * ratio, ratio);
  write(pen, grid.letters[2], pen.canvas.width / 2, 14 * ratio, ratio);
}
function write(pen, text, x, y, ratio) {
  if (!text) return;
  pen.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  pen.lineWidth = 3 * ratio;
  pen.lineJoin = "round";
  pen.strokeStyle = "rgba(0,0,0,.75)";
  pen.strokeText(text, x, y);
  pen.fillStyle = "#fff";
  pen.fillText(text, x, y);
}
function bracket(pen, [top, left, bottom, right], at) {
  const l = at.left + left * at.x, r = at.left + right * at.x, t = at.top + top * at.y, b = at.top + bottom * at.y;
  const arm = Math.min(10 * at.ratio, (r - l) / 3, (b - t) / 3);
  pen.strokeStyle = "rgba(255,255,255,.9)";
  pen.lineWidth = 1.2 * at.ratio;
  pen.beginPath();
  for (const [px, py, dx, dy] of [[l, t, 1, 1], [r, t, -1, 1], [l, b, 1, -1], [r, b, -1, -1]]) {
    pen.moveTo(px + dx * arm, py);
    pen.lineTo(px, py);
    pen.lineTo(px, py + dy * arm);
  }
  pen.stroke();
}

// The ruler: millimetres where the file says how large a pixel is, else pixels.
function lengthOf({ axis, start, end }) {
  const { spacing } = gridOf(axis), [rowStep, columnStep] = spacing || [1, 1];
  const length = Math.hypot((end[0] - start[0]) * rowStep, (end[1] - start[1]) * columnStep);
  const digits = length < 10 ? 2 : 1;
  return source.isWritten ? "" : `${length.toFixed(digits)}\u00a0${spacing ? "mm" : "px"}`;
}
function paintRuler(pen, grid, at) {
  const place = ([row, column]) => [at.left + column * at.x, at.top + row * at.y];
  const [x0, y0] = place(ruler.start), [x1, y1] = place(ruler.end);
  for (const [colour, width] of [["rgba(0,0,0,.7)", 4], ["#fff", 1.6]]) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = width * at.ratio;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
    for (const [x, y] of [[x0, y0], [x1, y1]]) {
      pen.beginPath();
      pen.arc(x, y, (width / 2 + 2) * at.ratio, 0, 7);
      pen.fill();
    }
  }
  write(pen, lengthOf(ruler), x1 + 8 * at.ratio, y1 - 8 * at.ratio, at.ratio);
}
function measure() {
  if (!source || source.isWritten) return;
  const isOn = !byId("ruler").checked;
  byId("ruler").checked = isOn;
  useRuler();
}
function useRuler() {
  const isOn = byId("ruler").checked, [row, column] = crossOn(view.axis), point = [row + 0.5, column + 0.5];
  ruler = isOn ? { axis: view.axis, plane: cross[view.axis], start: point, end: point } : null;
  if (isOn) byId("crosshair").checked = true;
  draw();
}
function showReadout() {
  const [row, column] = crossOn(view.axis), { tile: side } = source.content, parts = [`row ${row + 1}, column ${column + 1}`];
  const tile = tiles.peek(tileKey(view.axis, plane, 1, Math.floor(row / side), Math.floor(column / side)));
  if (tile && !source.isWritten && !source.content.colours)
    parts.push(`intensity ${Number(tile.values[(row % side) * tile.width + (column % side)].toPrecision(6))}`);
  if (isLayerShown("given")) {
    const mask = masks.peek(maskKey("given", view.axis, plane)), label = mask?.[row * view.grid.width + column];
    if (label) parts.push(label === IGNORED ? "ignored" : source.content.classes[label - 1] || `class ${label}`);
  }
  if (ruler) parts.push(`length ${lengthOf(ruler)}`);
  byId("readout").textContent = byId("crosshair").checked && !source.isWritten ? parts.join(" · ") : "";
}

// Window and level.
function setWindow(low, high, name = "") {
  windowNow = [low, Math.max(high, low + 1e-6)];
  byId("level").value = (low + high) / 2;
  byId("width").value = high - low;
  const shownNumber = (value) => String(Number(value.toPrecision(4)));
  byId("level-number").textContent = shownNumber((low + high) / 2);
  byId("width-number").textContent = shownNumber(high - low);
  byId("preset").value = name;
}
function slideWindow() {
  const level = Number(byId("level").value), width = Number(byId("width").value);
  setWindow(level - width / 2, level + width / 2);
  draw();
}
function usePreset() {
  const name = byId("preset").value, { content } = source, own = content.presets.find((preset) => preset.name === name);
  if (own) setWindow(own.low, own.high, name);
  else if (name === "whole range") setWindow(...content.range, name);
  else setWindow(...content.window, "automatic");
  draw();
}
function fillWindow() {
  const { range: [low, high], presets } = source.content, before = byId("preset").value;
  for (const name of ["level", "width"]) {
    byId(name).step = high - low > 50 ? 1 : "any";
    byId(name).min = name === "level" ? low : byId(name).step === "1" ? 1 : (high - low) / 1000;
    byId(name).max = name === "level" ? high : Math.max(2 * (high - low), 1e-3);
  }
  const names = ["automatic", "whole range", ...presets.map(({ name }) => name)];
  byId("preset").replaceChildren(...names.map((name) => option(name, name)), option("", "by hand"));
  byId("preset").value = names.includes(before) ? before : "automatic";
  usePreset();
}
// The channel of an image, by its name: the next case is shown in it, too, where it has it.
let channelNow = "";
function fillChannels() {
  const { channels, channel } = source.content;
  byId("channel-field").hidden = channels.length < 2;
  byId("channel").replaceChildren(...channels.map((name, number) => option(String(number), name)));
  byId("channel").value = String(channel);
}
// Its pixels are of this channel from then on; false where it cannot be read, and the one before stays.
async function useChannel(own, number) {
  const { content } = own;
  try {
    if (number !== content.channel) Object.assign(content, await own.channel(number));
    return true;
  } catch (error) {
    say(error instanceof TypeError ? ENDED : error.message, true);
    return false;
  }
}
async function useSameChannel(own) {
  const number = own.content.channels.indexOf(channelNow);
  if (number >= 0) await useChannel(own, number);
}
async function chooseChannel() {
  const own = source, number = Number(byId("channel").value);
  if (await useChannel(own, number)) channelNow = own.content.channels[number];
  if (own !== source) return;
  fillChannels();
  fillWindow();
  draw();
}

// Pointers: a drag moves the image, two fingers zoom it, a click places the crosshair.
const pointers = new Map();
let drag = null;
function pointerDown(pane, event) {
  if (!isShown(pane) || !ports[pane.axis()]) return;
  const axis = pane.axis(), [row, column] = pixelAt(pane, event);
  pointers.set(event.pointerId, event);
  pane.canvas.setPointerCapture(event.pointerId);
  if (pointers.size > 1) {
    if (drag?.kind === "handler") view.onPointer?.up(row, column, event);
    drag = { kind: "pinch" };
    return;
  }
  if (event.button === 0 && pane.isMain && view.onPointer) {
    drag = { kind: "handler" };
    event.preventDefault();
    pane.canvas.focus({ preventScroll: true });
    view.onPointer.down(row, column, event);
    return;
  }
  const isWindow = event.button === 2 || (event.button === 0 && event.shiftKey);
  drag = { kind: isWindow ? "window" : byId("ruler").checked && event.button === 0 ? "ruler" : "pan", moved: 0, axis };
  if (drag.kind === "ruler") ruler = { axis, plane: cross[axis], start: [row, column], end: [row, column] };
}
function pointerMoved(pane, event) {
  const before = pointers.get(event.pointerId);
  if (!before) {
    if (view.onPointer && pane.isMain && isShown(pane) && ports[view.axis]) view.onPointer.move(...pixelAt(pane, event), event);
    return;
  }
  pointers.set(event.pointerId, event);
  const axis = pane.axis(), dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
  if (drag?.kind === "pinch") { pinch(pane, event, before); return; }
  if (drag?.kind === "handler") { view.onPointer?.move(...pixelAt(pane, event), event); return; }
  if (!drag) return;
  drag.moved += Math.abs(dx) + Math.abs(dy);
  const port = ports[axis];
  if (drag.kind === "pan" && drag.moved > CLICK) moveTo(axis, port.row - dy / (port.zoom * aspectOf(gridOf(axis))), port.column - dx / port.zoom);
  if (drag.kind === "window") {
    const [low, high] = windowNow, step = (source.content.window[1] - source.content.window[0]) / 250;
    const width = Math.max(high - low + dx * step, step / 10), level = (low + high) / 2 + dy * step;
    setWindow(level - width / 2, level + width / 2);
    draw();
  }
  if (drag.kind === "ruler") { ruler.end = pixelAt(pane, event); draw(); }
}
function pinch(pane, event, before) {
  const other = [...pointers.values()].find((own) => own.pointerId !== event.pointerId);
  if (!other) return;
  const axis = pane.axis(), port = ports[axis];
  const apart = (own) => Math.hypot(own.clientX - other.clientX, own.clientY - other.clientY);
  const middle = { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 };
  const dx = (event.clientX - before.clientX) / 2, dy = (event.clientY - before.clientY) / 2;
  moveTo(axis, port.row - dy / (port.zoom * aspectOf(gridOf(axis))), port.column - dx / port.zoom);
  zoomAt(axis, apart(event) / Math.max(apart(before), 1), ...pixelAt(pane, middle));
}
function pointerUp(pane, event) {
  if (!pointers.delete(event.pointerId)) return;
  if (drag?.kind === "handler") view.onPointer?.up(...pixelAt(pane, event), event);
  else if (drag?.kind === "pan" && drag.moved <= CLICK && event.type === "pointerup" && event.button === 0) {
    moveCross(pane.axis(), ...pixelAt(pane, event));
    byId("slice").value = cross[view.axis];
    draw();
  }
  if (!pointers.size || drag?.kind === "handler") drag = null;
}
for (const pane of panes) {
  const { canvas } = pane;
  canvas.addEventListener("pointerdown", (event) => pointerDown(pane, event));
  canvas.addEventListener("pointermove", (event) => pointerMoved(pane, event));
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => pointerUp(pane, event));
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    if (!isShown(pane) || event.ctrlKey) return;
    event.preventDefault();
    const turned = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 40 * event.deltaY : event.deltaY;
    zoomAt(pane.axis(), Math.exp(-Math.max(-120, Math.min(120, turned)) / 400), ...pixelAt(pane, event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => keyOnImage(pane, event));
}
// Keys on an image that has the focus; a shift moves the crosshair in place of the image.
function keyOnImage(pane, event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!by || !isShown(pane) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const axis = pane.axis(), port = ports[axis];
  if (!event.shiftKey) {
    const step = 60 / port.zoom;
    moveTo(axis, port.row + (by[0] * step) / aspectOf(gridOf(axis)), port.column + by[1] * step);
    return;
  }
  byId("crosshair").checked = true;
  const [row, column] = crossOn(axis);
  moveCross(axis, row + by[0], column + by[1]);
  if (ruler && ruler.axis === axis) ruler.end = crossOn(axis).map((own) => own + 0.5);
  byId("slice").value = cross[view.axis];
  draw();
}
function zoomBy(factor) {
  if (source && ports[view.axis]) zoomAt(view.axis, factor, ports[view.axis].row, ports[view.axis].column);
}
function showWhole() {
  if (!source) return;
  for (const axis of [view.axis, ...otherAxes()]) showBox(axis, wholePlane(axis));
  draw();
}
function showPlane(number) {
  cross = cross.map((own, axis) => (axis === view.axis ? number : own));
  byId("slice").value = number;
  draw();
}

// A case, and one of its findings.
function useAxis(axis) {
  view.axis = axis;
  view.grid = gridOf(axis);
  byId("slice-field").hidden = view.grid.planes < 2;
  byId("slice").max = view.grid.planes - 1;
  byId("slice").value = cross[axis];
  byId("axis").value = String(axis);
}
// Resolves when image and annotations of the finding are there.
async function showInViewer(index, newSource, finding) {
  const isNew = index !== shownIndex || newSource.content !== source?.content, { content } = newSource;
  source = newSource;
  shownIndex = index;
  shownFinding = finding;
  if (isNew) {
    overrides.clear();
    partsOf = new WeakMap();
    ruler = null;
    byId("ruler").checked = false;
    ports.fill(null);
  }
  const place = content.findings[finding] || { plane: content.plane, box: null };
  const grid = content.axes[content.axis], box = place.box || [0, 0, grid.height, grid.width];
  if (isNew) cross = [0, 0, 0];
  cross = cross.map((own, axis) => (axis === content.axis ? place.plane : own));
  moveCross(content.axis, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  useAxis(content.axis);
  showControls();
  if (isNew) {
    fillChannels();
    fillWindow();
  }
  fitViews();
  draw();
  isOpening = true;
  try {
    await Promise.all(panes.filter(isShown).flatMap((pane) => awaited(pane)));
  } finally {
    isOpening = false;
  }
  if (source === newSource && shownFinding === finding) draw();
}
function awaited(pane) {
  const axis = pane.axis(), promises = [];
  for (const layer of pane.layers) if (hasLayer(layer)) promises.push(masks.promise(maskKey(layer, axis, cross[axis])));
  const grid = gridOf(axis), port = ports[axis], { canvas } = pane, x = port.zoom * Math.min(window.devicePixelRatio || 1, 2), y = x * aspectOf(grid);
  const scale = source.isWritten ? 1 : Math.min(LARGEST_SCALE, 2 ** Math.max(0, Math.floor(Math.log2(1 / Math.max(x, y)))));
  const at = { x, y, left: canvas.width / 2 - port.column * x, top: canvas.height / 2 - port.row * y };
  const sight = { left: 0, top: 0, right: canvas.width, bottom: canvas.height };
  for (const { row, column } of partsInSight(sight, grid, at, source.content.tile * scale)) promises.push(tiles.promise(tileKey(axis, cross[axis], scale, row, column)));
  return promises;
}
function showControls() {
  const { content } = source, isVolume = content.axes[0] !== null;
  byId("axis-field").hidden = !isVolume;
  byId("three").parentElement.hidden = !isVolume;
  for (const name of ["second", "third"]) byId(`figure-${name}`).hidden = !isVolume || !byId("three").checked;
  for (const layer of ["given", "predicted", "suggested"]) byId(`layer-${layer}`).parentElement.hidden = !hasLayer(layer);
  for (const name of ["fill", "blind"]) byId(name).parentElement.hidden = !content.hasMasks;
  for (const name of ["crosshair", "ruler"]) byId(name).parentElement.hidden = Boolean(source.isWritten);
  byId("layer-given").closest("fieldset").classList.toggle("several", !hasOneClass());
  byId("opacity-field").hidden = !content.hasMasks;
  byId("zoom").parentElement.hidden = !content.findings[shownFinding]?.box;
  byId("figure-suggested").hidden = !hasLayer("suggested") || isBlind();
  byId("first-look").hidden = !isBlind();
  byId("findings").classList.toggle("blind", isBlind());
  showLegend();
}
function showLegend() {
  const { classes } = source.content;
  byId("legend").hidden = classes.length < 2 || !source.content.hasMasks;
  byId("legend").replaceChildren(...classes.map((name, index) => {
    const swatch = element("canvas", { width: 56, height: 20, class: "swatch", "aria-hidden": "true" }), pen = swatch.getContext("2d");
    const { colour, line } = styleOf("given", index + 1, false);
    pen.fillStyle = "#2a2a2a";
    pen.fillRect(0, 0, 56, 20);
    pen.strokeStyle = colour;
    pen.lineWidth = 4;
    pen.setLineDash(line.map((length) => 2 * length));
    pen.beginPath();
    pen.moveTo(4, 10);
    pen.lineTo(52, 10);
    pen.stroke();
    return element("li", {}, swatch, name);
  }));
}
function firstLook(choice) {
  firstLooks.set(shownIndex, choice);
  showControls();
  showDeciding();
  nameViews();
  fitViews();
  draw();
  say(`First look: ${choice}. Prediction and suggestion are shown.`);
}
byId("axis").addEventListener("change", () => { ruler = null; byId("ruler").checked = false; overrides.clear(); useAxis(Number(byId("axis").value)); fitViews(); view.onShown?.(); draw(); });
for (const name of ["three", "blind"]) byId(name).addEventListener("change", () => {
  if (!source) return;
  if (isBlind()) stopDrawing();
  showControls();
  showDeciding();
  nameViews();
  fitViews();
  draw();
});
for (const name of ["fill", "crosshair"]) byId(name).addEventListener("change", () => draw());
byId("opacity").addEventListener("input", () => draw());
byId("ruler").addEventListener("change", useRuler);
for (const name of ["level", "width"]) byId(name).addEventListener("input", slideWindow);
byId("preset").addEventListener("change", usePreset);
byId("channel").addEventListener("change", chooseChannel);
byId("zoom-in").addEventListener("click", () => zoomBy(1.5));
byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
byId("zoom-fit").addEventListener("click", showWhole);
for (const choice of ["right", "wrong"]) byId(`looks-${choice}`).addEventListener("click", () => firstLook(choice));
