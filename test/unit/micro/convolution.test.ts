/** Depthwise and Winograd convolution over NHWC against a direct sum in float64. */
import { expectSame, expectWithin, onEveryBuild, randoms } from "./bed";

interface Image {
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  readonly values: Float32Array;
}

const image = (height: number, width: number, channels: number, seed: number): Image => ({
  height,
  width,
  channels,
  values: randoms(height * width * channels, seed),
});

/** One element, 0 outside. */
function pixel({ height, width, channels, values }: Image, y: number, x: number, channel: number): number {
  return y < 0 || x < 0 || y >= height || x >= width ? 0 : values[(y * width + x) * channels + channel]!;
}

function depthwiseRight(source: Image, weights: Float32Array, bias: Float32Array, kernel: number, step: number, pad: number) {
  const { height, width, channels } = source;
  const outHeight = Math.floor((height + 2 * pad - kernel) / step) + 1;
  const outWidth = Math.floor((width + 2 * pad - kernel) / step) + 1;
  const right: number[] = [];
  for (let y = 0; y < outHeight; y++) {
    for (let x = 0; x < outWidth; x++) {
      for (let channel = 0; channel < channels; channel++) {
        let sum = bias[channel]!;
        for (let t = 0; t < kernel * kernel; t++) {
          const value = pixel(source, y * step - pad + Math.floor(t / kernel), x * step - pad + (t % kernel), channel);
          sum += value * weights[t * channels + channel]!;
        }
        right.push(sum);
      }
    }
  }
  return { right, outHeight, outWidth };
}

const CHANNELS = [1, 3, 4, 5, 8, 13, 17, 32, 37];

onEveryBuild((bed) => {
  const { e } = bed;
  /** Fewer channels than the row form works on at once are left to the table form. */
  const wide = e.panelColumns() > 8 ? 8 : 4;

  describe.each([
    { kernel: 3, step: 1 },
    { kernel: 3, step: 2 },
    { kernel: 5, step: 1 },
    { kernel: 5, step: 2 },
  ])("depthwise $kernel x $kernel step $step", ({ kernel, step }) => {
    test.each(CHANNELS)("%i channels, windows inside: row form and table form have the same bits", (channels) => {
      const source = image(kernel + step, 8 * step + kernel, channels, 11);
      const weights = randoms(kernel * kernel * channels, 12);
      const bias = randoms(channels, 13);
      const { right, outHeight, outWidth } = depthwiseRight(source, weights, bias, kernel, step, 0);
      const at = bed.floats(source.values);
      const [w, b] = [bed.floats(weights), bed.floats(bias)];
      const rows = bed.output(outHeight * outWidth * channels);
      const table = bed.output(outHeight * outWidth * channels);
      const rowPitch = source.width * channels * 4;
      for (let y = 0; y < outHeight; y++) {
        const start = at + y * step * rowPitch;
        const done = e.depthwiseRow(
          kernel,
          step,
          outWidth,
          channels,
          start,
          rowPitch,
          channels * 4,
          w,
          b,
          rows + y * outWidth * channels * 4,
          channels * 4,
        );
        expect(done).toBe(kernel === 3 && channels >= wide ? 1 : 0);
        const pointers = bed.room(kernel * kernel * outWidth * 4);
        for (let t = 0; t < kernel * kernel; t++) {
          for (let x = 0; x < outWidth; x++) {
            bed.u32[pointers / 4 + t * outWidth + x] = start + Math.floor(t / kernel) * rowPitch + (x * step + (t % kernel)) * channels * 4;
          }
        }
        e.depthwise(outWidth, channels, kernel * kernel, pointers, outWidth * 4, w, b, table + y * outWidth * channels * 4, channels * 4);
      }
      const found = bed.read(table, right.length);
      expectWithin(found, right, kernel * kernel, 2 ** -22);
      if (kernel === 3 && channels >= wide) expectSame(bed.read(rows, right.length), found);
    });

    test.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13])("a row of %i pixels", (pixels) => {
      const channels = 9;
      const source = image(kernel, (pixels - 1) * step + kernel, channels, 14);
      const weights = randoms(kernel * kernel * channels, 15);
      const bias = randoms(channels, 16);
      const target = bed.output(pixels * channels);
      const args = [bed.floats(source.values), source.width * channels * 4, channels * 4, bed.floats(weights), bed.floats(bias)] as const;
      // Larger windows, and fewer pixels than a run, are left to the table form.
      expect(e.depthwiseRow(kernel, step, pixels, channels, ...args, target, channels * 4)).toBe(kernel === 3 && pixels >= 4 ? 1 : 0);
      if (kernel !== 3 || pixels < 4) return expect(bed.read(target, pixels * channels).every(Number.isNaN)).toBe(true);
      expectWithin(bed.read(target, pixels * channels), depthwiseRight(source, weights, bias, kernel, step, 0).right, kernel * kernel, 2 ** -22);
    });
  });

  test("depthwise 7 x 7 with padding: taps outside point to zeros", () => {
    const [kernel, pad, channels] = [7, 3, 11];
    const source = image(6, 5, channels, 17);
    const weights = randoms(49 * channels, 18);
    const bias = randoms(channels, 19);
    const { right, outHeight, outWidth } = depthwiseRight(source, weights, bias, kernel, 1, pad);
    const at = bed.floats(source.values);
    const zeros = bed.floats(new Float32Array(channels));
    const count = outHeight * outWidth;
    const table = bed.room(49 * count * 4);
    for (let t = 0; t < 49; t++) {
      for (let i = 0; i < count; i++) {
        const y = Math.floor(i / outWidth) - pad + Math.floor(t / 7);
        const x = (i % outWidth) - pad + (t % 7);
        const inside = y >= 0 && x >= 0 && y < source.height && x < source.width;
        bed.u32[table / 4 + t * count + i] = inside ? at + (y * source.width + x) * channels * 4 : zeros;
      }
    }
    const target = bed.output(count * channels);
    e.depthwise(count, channels, 49, table, count * 4, bed.floats(weights), bed.floats(bias), target, channels * 4);
    expectWithin(bed.read(target, right.length), right, 49, 2 ** -22);
  });

  describe("Winograd", () => {
    const cases = [
      { height: 4, width: 4, inputs: 16, outputs: 16, pad: 0 },
      { height: 8, width: 8, inputs: 16, outputs: 16, pad: 1 },
      { height: 5, width: 9, inputs: 19, outputs: 21, pad: 1 },
      { height: 13, width: 11, inputs: 3, outputs: 2, pad: 1 },
      { height: 7, width: 6, inputs: 40, outputs: 33, pad: 2 },
    ];
    test.each(cases)("$height x $width, $inputs -> $outputs channels, pad $pad", ({ height, width, inputs, outputs, pad }) => {
      const source = image(height, width, inputs, 21);
      const weights = randoms(outputs * inputs * 9, 22);
      const [outHeight, outWidth] = [height + 2 * pad - 2, width + 2 * pad - 2];
      const width4 = e.panelColumns();
      const panels = bed.room(36 * Math.ceil(outputs / width4) * inputs * width4 * 4);
      e.winogradWeights(bed.floats(weights), 12, 4, 36, inputs * 36, inputs, outputs, panels);
      const tiles = Math.ceil(outHeight / 4) * Math.ceil(outWidth / 4);
      const at = bed.floats(source.values);
      const whole = bed.output(outHeight * outWidth * outputs);
      const parts = bed.output(outHeight * outWidth * outputs);
      const run = (target: number, first: number, count: number): void => {
        const work = bed.room(e.winogradWork(inputs, outputs, count));
        e.winogradConvolve(at, height, width, inputs, pad, pad, panels, target, outHeight, outWidth, outputs, outputs * 4, first, count, work);
      };
      run(whole, 0, tiles);
      for (let first = 0; first < tiles; first += 2) run(parts, first, Math.min(2, tiles - first));
      const right: number[] = [];
      for (let i = 0; i < outHeight * outWidth * outputs; i++) {
        const output = i % outputs;
        const y = Math.floor(i / outputs / outWidth) - pad;
        const x = (Math.floor(i / outputs) % outWidth) - pad;
        let sum = 0;
        for (let input = 0; input < inputs; input++) {
          for (let t = 0; t < 9; t++) sum += pixel(source, y + Math.floor(t / 3), x + (t % 3), input) * weights[(output * inputs + input) * 9 + t]!;
        }
        right.push(sum);
      }
      expectWithin(bed.read(whole, right.length), right, Math.sqrt(9 * inputs), 4e-6);
      // How tiles are split over calls (and so over cores) must not show.
      expectSame(bed.read(parts, right.length), bed.read(whole, right.length));
    });

    test("writes rows of a wider target and nothing between them", () => {
      const [side, channels, pitch] = [5, 16, 21];
      const source = image(side, side, channels, 23);
      const weights = randoms(channels * channels * 9, 24);
      const panels = bed.room((36 * channels * channels + 36 * channels * e.panelColumns()) * 4);
      e.winogradWeights(bed.floats(weights), 12, 4, 36, channels * 36, channels, channels, panels);
      const at = bed.floats(source.values);
      const compact = bed.output(side * side * channels);
      const wide = bed.output(side * side * pitch);
      const work = bed.room(e.winogradWork(channels, channels, 4));
      e.winogradConvolve(at, side, side, channels, 1, 1, panels, compact, side, side, channels, channels * 4, 0, 4, work);
      e.winogradConvolve(at, side, side, channels, 1, 1, panels, wide, side, side, channels, pitch * 4, 0, 4, work);
      const values = bed.read(wide, side * side * pitch);
      expectSame(
        values.filter((_, i) => i % pitch < channels),
        bed.read(compact, side * side * channels),
      );
      expect(values.filter((_, i) => i % pitch >= channels).every(Number.isNaN)).toBe(true);
    });
  });
});
