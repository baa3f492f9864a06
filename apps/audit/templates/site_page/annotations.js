// How annotations are drawn: as contours or filled, in cells of as many pixels as the zoom asks for, part by part.
// Annotations are drawn by parts of so many cells a side. So many of an annotation are kept, and at least twice as many
// as are in sight: else a large screen would never have all.
const PART = 128, MAX_PARTS = 1024;
// Of many parts those that take longer are made with the next frames, so long in each; after a while what there is of
// them is drawn: milliseconds.
const FEW_PARTS = 16, ANSWERING = 16, MAKING = 50, PATIENCE = 400;
// Of each annotation that is drawn, its parts by what they show.
let partsOf = new WeakMap();
let makingUntil = Infinity;
let partsKept = MAX_PARTS;
// What is in sight and not yet made, and who makes it.
let unmade = [];
let making = null;

// The classes of a part of a plane in cells of scale × scale pixels, with a margin of one cell around it. A cell has a
// class that covers at least half of it, or any of it where an object is too small for half of a cell. What a cell has
// depends on its neighbours alone, so that neighbouring parts agree.
function cellsOf(mask, { width, height }, scale, top, left, rows, columns) {
  const wide = columns + 2, cells = new Uint8Array((rows + 2) * wide);
  if (scale === 1) {
    const first = Math.max(left - 1, 0), last = Math.min(left + columns + 1, width);
    for (let row = -1; row <= rows; row += 1) {
      const own = top + row;
      if (own < 0 || own >= height) continue;
      cells.set(mask.subarray(own * width + first, own * width + last), (row + 1) * wide + first - left + 1);
    }
    return cells;
  }
  // Counted one cell further, for the neighbours of the margin.
  const across = columns + 4, counts = new Uint16Array((rows + 4) * across), seen = new Uint8Array(counts.length);
  const firstRow = Math.max((top - 2) * scale, 0), lastRow = Math.min((top + rows + 2) * scale, height);
  const firstColumn = Math.max(left - 2, 0), lastColumn = Math.min(left + columns + 2, Math.ceil(width / scale));
  for (let y = firstRow; y < lastRow; y += 1) {
    let cell = (Math.floor(y / scale) - top + 2) * across + firstColumn - left + 2;
    for (let column = firstColumn, x = y * width + firstColumn * scale; column < lastColumn; column += 1, cell += 1) {
      const end = column + 1 < lastColumn ? x + scale : Math.min(x + scale, (y + 1) * width);
      let count = 0, label = 0;
      for (; x < end; x += 1) if (mask[x]) {
        count += 1;
        label = mask[x];
      }
      if (!count) continue;
      counts[cell] += count;
      seen[cell] = label;
    }
  }
  const half = (scale * scale) / 2, isHalf = (cell) => counts[cell] >= half;
  for (let row = 0; row < rows + 2; row += 1) for (let column = 0; column < wide; column += 1) {
    const cell = (row + 1) * across + column + 1;
    if (!counts[cell]) continue;
    const isShown = isHalf(cell) || !(isHalf(cell - 1) || isHalf(cell + 1) || isHalf(cell - across) || isHalf(cell + across)
      || isHalf(cell - across - 1) || isHalf(cell - across + 1) || isHalf(cell + across - 1) || isHalf(cell + across + 1));
    if (isShown) cells[row * wide + column] = seen[cell];
  }
  return cells;
}
// The contour of each class in a part of a plane, as paths in cells; whole lines, so that they can be dashed.
function contoursOf(cells, rows, columns, isLastRow, isLastColumn) {
  const wide = columns + 2, across = columns + 1, edges = new Map();
  const add = (label, from, to) => {
    if (!label) return;
    const own = edges.get(label);
    if (own) own.push(from, to); else edges.set(label, [from, to]);
  };
  // Lines between neighbouring cells; strides are of cells and of points, across the lines and along one.
  const addLines = (count, length, [acrossCells, alongCells, acrossPoints, alongPoints], isRow) => {
    for (let line = 0; line < count; line += 1) {
      const point = (at) => line * acrossPoints + at * alongPoints;
      let start = 0, before = 0, after = 0;
      for (let at = 0; at <= length; at += 1) {
        const cell = line * acrossCells + (at + 1) * alongCells;
        const a = at < length ? cells[cell] : 0, b = at < length ? cells[cell + acrossCells] : 0;
        if (a === before && b === after) continue;
        if (before !== after) {
          const [from, to] = isRow ? [at, start] : [start, at];
          add(before, point(from), point(to));
          add(after, point(to), point(from));
        }
        start = at;
        before = a;
        after = b;
      }
    }
  };
  addLines(rows + (isLastRow ? 1 : 0), columns, [wide, 1, across, 1], true);
  addLines(columns + (isLastColumn ? 1 : 0), rows, [1, wide, 1, across], false);
  return new Map([...edges].map(([label, own]) => [label, pathOf(own, across, (rows + 1) * across)]));
}
// Edges from point to point, of which a point has at most two, as one path; points are numbered over rows of `across`.
function pathOf(edges, across, points) {
  const path = new Path2D(), first = new Int32Array(points).fill(-1), second = new Int32Array(points).fill(-1);
  for (let at = 0; at < edges.length; at += 2) (first[edges[at]] < 0 ? first : second)[edges[at]] = edges[at + 1];
  for (let edge = 0; edge < edges.length; edge += 2) {
    let at = edges[edge];
    if (first[at] < 0) continue;
    path.moveTo(at % across, Math.floor(at / across));
    while (first[at] >= 0) {
      const next = first[at];
      first[at] = second[at];
      second[at] = -1;
      at = next;
      path.lineTo(at % across, Math.floor(at / across));
    }
    edge -= 2;
  }
  return path;
}
function styleOf(layer, label, isSingle) {
  const isPredicted = layer === "predicted";
  if (label === IGNORED) return { colour: "#c8c8c8", line: [1, 4], width: 1.4, casing: "rgba(0,0,0,.55)" };
  if (isSingle) return { colour: COLOURS[layer] || COLOURS.other, line: isPredicted ? [5, 5] : [], width: 1.8, casing: "rgba(0,0,0,.55)" };
  const number = (label - 1) % CLASS_COLOURS.length;
  // The prediction is thin and on white, a drawn mask wide and on its own colour.
  if (!COLOURS[layer]) return { colour: CLASS_COLOURS[number], line: CLASS_LINES[number], width: 3, casing: COLOURS.other };
  return { colour: CLASS_COLOURS[number], line: CLASS_LINES[number], width: isPredicted ? 1.2 : 2,
    casing: isPredicted ? "rgba(255,255,255,.75)" : "rgba(0,0,0,.55)" };
}

function paintLayer(pen, { layer, mask, grid, scale, parts, isFilled }, at) {
  const placeX = (column) => at.left + column * PART * scale * at.x, placeY = (row) => at.top + row * PART * scale * at.y;
  pen.globalAlpha = Number(byId("opacity").value) / 100;
  if (isFilled) {
    pen.imageSmoothingEnabled = false;
    for (const { row, column } of parts) {
      const shown = partOf(layer, mask, grid, scale, row, column, isFilled);
      if (!shown) continue;
      const left = Math.round(placeX(column)), top = Math.round(placeY(row));
      const right = Math.round(placeX(column + shown.width / PART)), bottom = Math.round(placeY(row + shown.height / PART));
      pen.drawImage(shown, left, top, right - left, bottom - top);
    }
  } else {
    // One path for each class, so that the ends of its parts do not show.
    const paths = new Map();
    for (const { row, column } of parts) for (const [label, path] of partOf(layer, mask, grid, scale, row, column, isFilled) || []) {
      if (!paths.has(label)) paths.set(label, new Path2D());
      paths.get(label).addPath(path, new DOMMatrix([scale * at.x, 0, 0, scale * at.y, placeX(column), placeY(row)]));
    }
    for (const [label, path] of paths) paintContour(pen, path, styleOf(layer, label, hasOneClass()), at.ratio, scale * at.x > 2 * at.ratio);
  }
  pen.globalAlpha = 1;
}
// The parts of an annotation in sight, and whether they could be made in time; else they are made with the next frames.
function partsShown(layer, mask, grid, scale, sight, at) {
  const parts = [...partsInSight(sight, grid, at, PART * scale)];
  const job = { layer, mask, grid, scale, parts, isFilled: byId("fill").checked };
  partsKept = Math.max(partsKept, 2 * parts.length);
  job.isMade = isMade(job, parts.length > FEW_PARTS ? makingUntil : Infinity);
  if (!job.isMade) unmade.push(job);
  return job;
}
const isMade = ({ layer, mask, grid, scale, parts, isFilled }, until) =>
  parts.every(({ row, column }) => partOf(layer, mask, grid, scale, row, column, isFilled, until));
// With the next frames what is in sight is made, and nothing drawn until it is there.
function makeSoon() {
  const own = unmade, began = performance.now();
  unmade = [];
  if (own.length) making = own;
  byId("views").setAttribute("aria-busy", String(Boolean(making)));
  if (!own.length) return;
  const next = () => {
    if (making !== own || !source) return;
    const until = performance.now() + MAKING;
    if (own.every((job) => isMade(job, until)) || performance.now() > began + PATIENCE) draw(); else requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}
// A part of an annotation as it is drawn: a small canvas, or a path for each class; null where a later frame has it.
function partOf(layer, mask, grid, scale, row, column, isFilled, until = 0) {
  if (!partsOf.has(mask)) partsOf.set(mask, new Map());
  const parts = partsOf.get(mask), key = `${isFilled} ${scale} ${row} ${column}`, known = parts.get(key);
  if (known) return known.shown;
  if (performance.now() > until) return null;
  const all = { rows: Math.ceil(grid.height / scale), columns: Math.ceil(grid.width / scale) };
  const rows = Math.min(PART, all.rows - row * PART), columns = Math.min(PART, all.columns - column * PART);
  const cells = cellsOf(mask, grid, scale, row * PART, column * PART, rows, columns);
  const shown = isFilled ? filledCells(layer, cells, rows, columns)
    : contoursOf(cells, rows, columns, (row + 1) * PART >= all.rows, (column + 1) * PART >= all.columns);
  if (parts.size >= partsKept) parts.clear();
  parts.set(key, { scale, row, column, shown });
  return shown;
}
function paintContour(pen, path, { colour, line, width, casing }, ratio, isCoarse) {
  // Corners of cells that are smaller than a line is wide need not be round, which takes most of the time.
  pen.lineJoin = isCoarse ? "round" : "bevel";
  pen.lineCap = "round";
  pen.setLineDash([]);
  pen.strokeStyle = casing;
  pen.lineWidth = (width + 1.8) * ratio;
  pen.stroke(path);
  pen.lineCap = line.length ? "butt" : "round";
  pen.setLineDash(line.map((length) => length * ratio));
  pen.strokeStyle = colour;
  pen.lineWidth = width * ratio;
  pen.stroke(path);
  pen.setLineDash([]);
}
const hasOneClass = () => source.content.classes.length < 2;
function filledCells(layer, cells, rows, columns) {
  const canvas = element("canvas", { width: columns, height: rows }), pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows), words = new Uint32Array(image.data.buffer), table = new Uint32Array(256);
  for (let label = 1; label < 256; label += 1) {
    const colour = parseInt(styleOf(layer, label, hasOneClass()).colour.slice(1), 16);
    table[label] = 0x80000000 | ((colour & 255) << 16) | (colour & 0xff00) | (colour >> 16);
  }
  for (let row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1)
    words[row * columns + column] = table[cells[(row + 1) * (columns + 2) + column + 1]];
  pen.putImageData(image, 0, 0);
  return canvas;
}
