/**
 * Where text stands in a picture: input and output of a detection network of the DB kind ("differentiable binarization"). It says for each
 * pixel how likely it is in the middle of a line of text; what is likely and connected is one line, somewhat smaller than the text itself.
 */
import { sample } from "./image.mjs";

/** The network halves the picture five times. */
const MULTIPLE = 32;
const LONGEST_SIDE = 960;
const MEAN = [0.485, 0.456, 0.406];
const DEVIATION = [0.229, 0.224, 0.225];

const THRESHOLD = 0.3;
const LEAST_SCORE = 0.6;
const LEAST_SIDE = 3;
/** The network learnt rectangles that are shrunk by area / perimeter times this. */
const UNCLIP = 1.6;

/** {dims, data} for the network, and how much smaller it is than the picture. */
export function detectionInput(image) {
  const scale = Math.min(1, LONGEST_SIDE / Math.max(image.width, image.height));
  const side = (length) => Math.max(MULTIPLE, Math.round((length * scale) / MULTIPLE) * MULTIPLE);
  const [width, height] = [side(image.width), side(image.height)];
  const whole = { x: image.width / 2, y: image.height / 2, width: image.width, height: image.height, cos: 1, sin: 0 };
  const data = sample(image, whole, width, height, (value, plane) => (value / 255 - MEAN[plane]) / DEVIATION[plane]);
  return { dims: [1, 3, height, width], data };
}

/** The connected sets of pixels above the threshold, each a list of positions. */
function components(map, width, height) {
  const seen = new Uint8Array(map.length);
  const found = [];
  for (let start = 0; start < map.length; start++) {
    if (seen[start] || map[start] < THRESHOLD) continue;
    const members = [start];
    seen[start] = 1;
    for (let i = 0; i < members.length; i++) {
      const [x, y] = [members[i] % width, Math.floor(members[i] / width)];
      for (let ny = Math.max(0, y - 1); ny <= Math.min(height - 1, y + 1); ny++) {
        for (let nx = Math.max(0, x - 1); nx <= Math.min(width - 1, x + 1); nx++) {
          const at = ny * width + nx;
          if (!seen[at] && map[at] >= THRESHOLD) {
            seen[at] = 1;
            members.push(at);
          }
        }
      }
    }
    found.push(members);
  }
  return found;
}

const cross = ([ax, ay], [bx, by], [cx, cy]) => (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);

/** The corners of the convex hull, in order (monotone chain). */
function hullOf(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list) => {
    const chain = [];
    for (const point of list) {
      while (chain.length > 1 && cross(chain.at(-2), chain.at(-1), point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

/** The rectangle of least area around the points: one of its sides lies on a side of the hull. Its width is the side closer to horizontal. */
function leastRectangle(points) {
  const hull = hullOf(points);
  let best;
  hull.forEach(([x0, y0], i) => {
    const [x1, y1] = hull[(i + 1) % hull.length];
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    let [cos, sin] = [(x1 - x0) / length, (y1 - y0) / length];
    if (Math.abs(sin) > Math.abs(cos)) [cos, sin] = [sin, -cos];
    if (cos < 0) [cos, sin] = [-cos, -sin];
    const us = hull.map(([x, y]) => x * cos + y * sin);
    const vs = hull.map(([x, y]) => y * cos - x * sin);
    const [u0, u1, v0, v1] = [Math.min(...us), Math.max(...us), Math.min(...vs), Math.max(...vs)];
    const area = (u1 - u0) * (v1 - v0);
    if (best === undefined || area < best.area) {
      const [u, v] = [(u0 + u1) / 2, (v0 + v1) / 2];
      best = { area, x: u * cos - v * sin, y: u * sin + v * cos, width: u1 - u0, height: v1 - v0, cos, sin };
    }
  });
  return best;
}

/** Rectangles in the picture that hold a line of text each, from top to bottom, with the network's certainty. */
export function boxesOf(map, [, , height, width], image) {
  const [scaleX, scaleY] = [image.width / width, image.height / height];
  const boxes = [];
  for (const members of components(map, width, height)) {
    const score = members.reduce((sum, at) => sum + map[at], 0) / members.length;
    // All four corners of each pixel, so that one pixel has an area.
    const corners = members.flatMap((at) => {
      const [x, y] = [at % width, Math.floor(at / width)];
      return [[x, y], [x + 1, y], [x, y + 1], [x + 1, y + 1]].map(([px, py]) => [px * scaleX, py * scaleY]); // biome-ignore format: corners
    });
    const box = leastRectangle(corners);
    if (score < LEAST_SCORE || Math.min(box.width, box.height) < LEAST_SIDE) continue;
    const grown = (UNCLIP * box.width * box.height) / (2 * (box.width + box.height));
    boxes.push({ ...box, width: box.width + 2 * grown, height: box.height + 2 * grown, score });
  }
  return boxes.sort((a, b) => a.y - b.y || a.x - b.x);
}
