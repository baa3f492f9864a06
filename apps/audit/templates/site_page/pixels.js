// Pixels of a case: tiles of the image, classes of a plane, and what is drawn of both. A served page asks for those of
// the case's files; a written page holds smaller ones.
const MAX_TILES = 96, MAX_MASK_BYTES = 2e8, IGNORED = 255;
const ARRAYS = { uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, float32: Float32Array };
const LAYERS = ["given", "predicted", "suggested"];
const COLOURS = { given: "#ffb000", predicted: "#6cc4ff", suggested: "#5df2a0", other: "#ff8ad0" };
// With several classes each has a colour and a line of its own.
const CLASS_COLOURS = ["#ffb000", "#6cc4ff", "#ff8ad0", "#5df2a0", "#c9a6ff", "#ff8a5c", "#f2ee6b", "#9be8e2"];
const CLASS_LINES = [[], [9, 4], [2, 3], [9, 3, 2, 3], [14, 4], [5, 5], [1, 4], [14, 3, 2, 3, 2, 3]];
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
function classesOfBytes(buffer, size) {
  const form = new DataView(buffer).getUint32(0, true);
  if (form === 0) {
    if (buffer.byteLength !== size + 4) throw new Error("its annotation has another size than its image.");
    return new Uint8Array(buffer, 4);
  }
  const classes = new Uint8Array(size), runs = new DataView(buffer, 4);
  let pixel = 0;
  for (let at = 0; at < runs.byteLength; at += 4) {
    const run = runs.getUint32(at, true), length = run & 0xffffff, label = run >>> 24;
    if (label) classes.fill(label, pixel, pixel + length);
    pixel += length;
  }
  if (pixel !== size) throw new Error("its annotation has another size than its image.");
  return classes;
}
async function askedBytes(path) {
  const answer = await fetch(path, { headers: { "X-Review-Token": token }, cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.json()).problem);
  return answer.arrayBuffer();
}
function servedSource(index, content) {
  return {
    content,
    async tile(axis, plane, scale, row, column) {
      // Of the channel that is shown now, whichever is when the answer is there.
      const { channel, type, version } = content, part = `axis=${axis}&plane=${plane}&scale=${scale}&row=${row}&column=${column}`;
      return new ARRAYS[type](await askedBytes(`pixels/${index}?version=${version}&channel=${channel}&${part}`));
    },
    channel: (number) => asked(`channel/${index}?version=${content.version}&channel=${number}`),
    async mask(layer, finding, axis, plane) {
      const { width, height } = content.axes[axis];
      const number = layer === "suggested" ? finding : 0, part = `layer=${LAYERS.indexOf(layer)}&finding=${number}&axis=${axis}&plane=${plane}`;
      return classesOfBytes(await askedBytes(`mask/${index}?version=${content.version}&${part}`), width * height);
    },
  };
}
// What a written page holds, as a served one describes it.
function describedContent(content) {
  const { width, height, images, aspect, findings } = content;
  return {
    shown: content.shown, version: "", channels: [], channel: 0, axis: 2, plane: findings[0]?.plane || 0, type: "uint8", colours: false, window: [0, 255], range: [0, 255],
    axes: [null, null, { width, height, aspect, planes: images.length, spacing: null, letters: "" }], presets: [], tile: 512,
    classes: [], hasMasks: content.given !== null, hasPrediction: content.predicted !== null,
    findings: findings.map(({ plane, box, suggested }) => ({ plane, box, hasSuggestion: suggested !== null })),
  };
}
function writtenSource(content) {
  const described = describedContent(content), size = content.width * content.height, pages = new Map();
  async function page(plane) {
    if (!pages.has(plane)) {
      const canvas = element("canvas", { width: content.width, height: content.height });
      const pen = canvas.getContext("2d", { willReadFrequently: true });
      pen.drawImage(await decoded(content.images[plane]), 0, 0);
      pages.set(plane, pen);
      while (pages.size > 24) pages.delete(pages.keys().next().value);
    }
    return pages.get(plane);
  }
  return {
    content: described,
    isWritten: true,
    async tile(axis, plane, scale, row, column) {
      const side = described.tile, left = column * side, top = row * side;
      const pen = await page(plane);
      return pen.getImageData(left, top, Math.min(side, content.width - left), Math.min(side, content.height - top)).data;
    },
    async mask(layer, finding, axis, plane) {
      const runs = layer === "suggested" ? content.findings[finding].suggested[plane] ?? content.given[plane]
        : content[layer][plane];
      return classesOf(runs, size);
    },
  };
}

// What has been asked for: promises first, then their values; the oldest go where there are many.
function keptIn(size, limit) {
  const kept = new Map();
  let held = 0;
  return {
    // The value, or undefined until it is there; then `later` is called, or `failed` with an error.
    get(key, ask, later, failed) {
      let entry = kept.get(key);
      if (!entry) {
        entry = { value: undefined, promise: null, size: 0 };
        kept.set(key, entry);
        entry.promise = ask().then((value) => {
          entry.value = value;
          entry.size = size(value);
          held += entry.size;
          for (const [old, { size: own }] of kept) {
            if (held <= limit || old === key) break;
            kept.delete(old);
            held -= own;
          }
          return value;
        }, (error) => { kept.delete(key); throw error; });
        entry.promise.then(later, failed);
      } else if (entry.value !== undefined) {
        kept.delete(key);
        kept.set(key, entry);
      }
      return entry.value;
    },
    peek: (key) => kept.get(key)?.value,
    promise: (key) => kept.get(key)?.promise,
  };
}
const maskKeyOf = (index, { version }, layer, finding, axis, number) =>
  `${index} ${version} ${layer} ${layer === "suggested" ? finding : ""} ${axis} ${number}`;
const tiles = keptIn(() => 1, MAX_TILES);
const masks = keptIn((mask) => mask.length, MAX_MASK_BYTES);

// A tile's values through the window, as a small canvas.
function renderedTile(tile, window, content, isWritten) {
  const key = window.join();
  if (tile.key === key) return tile.canvas;
  tile.canvas ||= element("canvas", { width: tile.width, height: tile.height });
  const pen = tile.canvas.getContext("2d"), image = pen.createImageData(tile.width, tile.height), { data } = image;
  const { values } = tile, [low, high] = window, factor = 255 / Math.max(high - low, 1e-6);
  const level = (value) => Math.max(0, Math.min(255, (value - low) * factor));
  // Eight bits are looked up; of more, most values of a table would never be asked for.
  const table = content.type === "uint8" ? Uint8ClampedArray.from({ length: 256 }, (_, value) => level(value)) : null;
  if (isWritten || content.colours) {
    const step = isWritten ? 4 : 3;
    for (let at = 0, to = 0; to < data.length; at += step, to += 4) {
      data[to] = table[values[at]];
      data[to + 1] = table[values[at + 1]];
      data[to + 2] = table[values[at + 2]];
      data[to + 3] = 255;
    }
  } else {
    const words = new Uint32Array(data.buffer);
    for (let at = 0; at < words.length; at += 1) {
      const grey = table ? table[values[at]] : Math.round(level(values[at]));
      words[at] = 0xff000000 | (grey << 16) | (grey << 8) | grey;
    }
  }
  pen.putImageData(image, 0, 0);
  tile.key = key;
  return tile.canvas;
}
