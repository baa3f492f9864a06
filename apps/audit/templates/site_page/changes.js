// Changes, which can be undone: where, what was there, and what is there now.
const MAX_HISTORY_PIXELS = 2 ** 24, BLOCK = 64;
function difference(number, after) {
  const before = planeOf(number), at = [];
  for (let pixel = 0; pixel < after.length; pixel += 1) if (before[pixel] !== after[pixel]) at.push(pixel);
  const pixels = Uint32Array.from(at);
  return { number, at: pixels, before: Uint8Array.from(pixels, (pixel) => before[pixel]), after: Uint8Array.from(pixels, (pixel) => after[pixel]) };
}
// Planes that take the place of those that are drawn.
function change(tool, planes) {
  if (stroke) return false;
  const parts = [...planes].map(([number, after]) => difference(number, after)).filter(({ at }) => at.length);
  put(parts, "after");
  return keepChange(tool, parts);
}
function keepChange(tool, parts) {
  if (!parts.length) return false;
  draft.past.push({ tool, parts });
  draft.future = [];
  const pixels = (step) => step.parts.reduce((sum, { at }) => sum + at.length, 0);
  for (let sum = draft.past.reduce((all, step) => all + pixels(step), 0); sum > MAX_HISTORY_PIXELS && draft.past.length > 1;)
    sum -= pixels(draft.past.shift());
  showDrawing(boxOfParts(parts));
  return true;
}
// A plane that is changed in place: of blocks of it, what was there before they were touched.
function beginEdit(number) {
  return { number, plane: planeOf(number), height: draft.content.height, width: draft.content.width, blocks: new Map(), box: null };
}
// Before a box of pixels is changed; returns the part of it that is in the plane: top, left, bottom, right.
function touch(edit, rows, columns) {
  const { plane, height, width, blocks } = edit;
  const [top, bottom] = [Math.max(rows[0], 0), Math.min(rows[1], height - 1)], [left, right] = [Math.max(columns[0], 0), Math.min(columns[1], width - 1)];
  for (let row = Math.floor(top / BLOCK); row * BLOCK <= bottom; row += 1)
    for (let column = Math.floor(left / BLOCK); column * BLOCK <= right; column += 1) {
      const key = `${row} ${column}`;
      if (blocks.has(key)) continue;
      const block = { top: row * BLOCK, left: column * BLOCK, rows: Math.min(BLOCK, height - row * BLOCK), columns: Math.min(BLOCK, width - column * BLOCK) };
      block.before = new Uint8Array(block.rows * block.columns);
      for (let y = 0; y < block.rows; y += 1) {
        const start = (block.top + y) * width + block.left;
        block.before.set(plane.subarray(start, start + block.columns), y * block.columns);
      }
      blocks.set(key, block);
    }
  const box = [top, left, bottom + 1, right + 1];
  edit.box = edit.box ? united(edit.box, box) : box;
  return box;
}
function endEdit(tool, { number, plane, width, blocks }) {
  const at = [], before = [];
  for (const block of blocks.values()) for (let row = 0, own = 0; row < block.rows; row += 1) {
    const start = (block.top + row) * width + block.left;
    for (let pixel = start; pixel < start + block.columns; pixel += 1, own += 1) if (plane[pixel] !== block.before[own]) {
      at.push(pixel);
      before.push(block.before[own]);
    }
  }
  if (!at.length) return false;
  return keepChange(tool, [{ number, at: Uint32Array.from(at), before: Uint8Array.from(before), after: Uint8Array.from(at, (pixel) => plane[pixel]) }]);
}
function cancelEdit({ plane, width, blocks }) {
  for (const { top, left, rows, columns, before } of blocks.values()) {
    for (let y = 0; y < rows; y += 1) plane.set(before.subarray(y * columns, (y + 1) * columns), (top + y) * width + left);
    view.changed(plane, [top, left, top + rows, left + columns]);
  }
}
function cancelStroke() {
  if (stroke) cancelEdit(stroke.edit);
  stroke = null;
  lasso = [];
}
function put(parts, which) {
  for (const part of parts) {
    const plane = planeOf(part.number);
    part.at.forEach((pixel, index) => { plane[pixel] = part[which][index]; });
    if (part.at.length) view.changed(plane, boxOf(part.at));
  }
}
function boxOf(pixels) {
  const { width } = draft.content;
  let [top, left, bottom, right] = [Infinity, Infinity, -1, -1];
  for (const pixel of pixels) {
    const row = Math.floor(pixel / width), column = pixel % width;
    if (row < top) top = row;
    if (row > bottom) bottom = row;
    if (column < left) left = column;
    if (column > right) right = column;
  }
  return [top, left, bottom + 1, right + 1];
}
// What of the present plane changes; null where other planes change, too.
const boxOfParts = (parts) => (parts.length === 1 && parts[0].number === view.plane ? boxOf(parts[0].at) : null);
function move(from, to, which) {
  if (!draft || stroke || !from.length) return;
  dropPreview();
  const step = from.pop();
  put(step.parts, which);
  to.push(step);
  if (!step.parts.some(({ number }) => number === view.plane)) showPlane(step.parts[0].number);
  showDrawing(boxOfParts(step.parts));
}
// An offset that is only shown is the last step: it alone is undone, and nothing is redone before it.
function undoDrawing() {
  if (!draft || stroke) return;
  if (previewing || (preview && !keepPreview())) { dropPreview(); showDrawing(); return; }
  move(draft.past, draft.future, "before");
}
function redoDrawing() {
  if (!preview && !previewing) move(draft.future, draft.past, "after");
}
const isUnstored = (one) => one.past.length > 0;
