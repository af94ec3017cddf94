/** Whether an image may run: nothing in it can make a kernel leave the bindings. Takes any bytes; says what is wrong and where. */
import { ABI_VERSION } from "../../asm/abi/device";
import { Opcode } from "../../asm/abi/isa";
import { Instruction, Program, PROGRAM_MAGIC, Region, Tensor } from "../../asm/abi/program";
import { Binding } from "../../asm/abi/stream";
import { AclError } from "../errors/acl-error";
import { Image, type TensorRecord } from "./image";
import { PANEL_WIDTHS } from "./pack";
import { RANK_LIMIT, RECORD_DIMS } from "./tensor-table";
import { type Scope, verifyInstruction } from "./verify-instruction";
import { product, reachOf } from "./views";

const MEMORY_LIMIT = 2 ** 32;

function fail(what: string): never {
  throw new AclError(500002, `program image: ${what}; the image is damaged or was written by another version: compile the model again`);
}

const need = (condition: boolean, what: string): void => {
  if (!condition) fail(what);
};

function verifyHeader(image: Image): void {
  need(image.bytes.length >= Program.SIZE, `${image.bytes.length} bytes are less than a header`);
  need(image.header(Program.MAGIC) === PROGRAM_MAGIC, "no program starts like this");
  need(image.header(Program.VERSION) === ABI_VERSION, `version ${image.header(Program.VERSION)}, this device runs ${ABI_VERSION}`);
  need(PANEL_WIDTHS.includes(image.header(Program.FLAGS)), `panels of ${image.header(Program.FLAGS)} columns belong to no kernel build`);
  need(image.header(Program.BYTES) === image.bytes.length, `${image.bytes.length} bytes, the header says ${image.header(Program.BYTES)}`);
  const sections: readonly [string, number, number, number, number][] = [
    ["tensors", Program.TENSORS, image.header(Program.TENSOR_COUNT) * Tensor.SIZE, 64, Program.SIZE],
    ["regions", Program.REGIONS, image.header(Program.REGION_COUNT) * Region.SIZE, 4, Program.SIZE],
    ["instructions", Program.INSTRUCTIONS, image.header(Program.INSTRUCTION_COUNT) * Instruction.SIZE, 64, Program.SIZE],
    ["strips", Program.STRIPS, image.header(Program.STRIPS_BYTES), 16, Program.SIZE],
    ["names", Program.DEBUG, image.header(Program.DEBUG_BYTES), 1, 0],
  ];
  for (const [name, field, size, alignment, low] of sections) {
    const at = image.header(field);
    need(
      at >= low && at % alignment === 0 && at + size <= image.bytes.length,
      `section "${name}" at ${at} with ${size} bytes does not lie in the image`,
    );
  }
}

/** Every record that operands may name, by index; checks extents against the bindings. */
function verifyTensors(image: Image, bindingBytes: readonly number[] | undefined): (TensorRecord | undefined)[] {
  const count = image.header(Program.TENSOR_COUNT);
  const bindings = image.header(Program.BINDINGS);
  const records: (TensorRecord | undefined)[] = new Array(count).fill(undefined);
  for (let i = 0; i < count; i++) {
    const rank = image.rank(i);
    need(rank <= RANK_LIMIT && i + (rank > RECORD_DIMS ? 1 : 0) < count, `tensor ${i} has ${rank} dims`);
    const record = image.tensor(i) ?? fail(`tensor ${i} has no dtype of a device`);
    need(record.binding < bindings, `tensor ${i} is in binding ${record.binding} of ${bindings}`);
    need(product(record.dims) < MEMORY_LIMIT, `tensor ${i} has more elements than 32 bits count`);
    const { low, high } = reachOf(record.dims, record.strides, record.elementBytes);
    const size = bindingBytes?.[record.binding] ?? MEMORY_LIMIT;
    need(
      record.offset + low >= 0 && record.offset + high <= size,
      `tensor ${i} touches bytes ${record.offset + low} to ${record.offset + high} of ${size}`,
    );
    need(record.bytes === high - low, `tensor ${i} spans ${high - low} bytes, its record says ${record.bytes}`);
    records[i] = record;
    if (rank > RECORD_DIMS) i++;
  }
  return records;
}

const isControl = (op: number): boolean => op === Opcode.BRANCH || op === Opcode.LOOP || op === Opcode.CALL || op === Opcode.RETURN;

function verifyRegions(image: Image): void {
  let next = 0;
  const count = image.header(Program.INSTRUCTION_COUNT);
  for (let r = 0; r < image.header(Program.REGION_COUNT); r++) {
    const at = image.header(Program.REGIONS) + r * Region.SIZE;
    const [first, size] = [image.u32(at + Region.FIRST), image.u32(at + Region.COUNT)];
    need(first === next && size >= 1 && first + size <= count, `region ${r} holds instructions ${first} to ${first + size} of ${count}`);
    let tiles = 0;
    for (let i = first; i < first + size; i++) {
      const it = image.instruction(i);
      need(isControl(it.op) ? size === 1 : it.tiles >= 1, `region ${r} mixes control and work`);
      tiles += it.tiles;
    }
    need(
      tiles < MEMORY_LIMIT && tiles === image.u32(at + Region.TILES),
      `region ${r} has ${tiles} tiles, its record says ${image.u32(at + Region.TILES)}`,
    );
    next += size;
  }
  need(next === count, `${count - next} instructions belong to no region`);
}

function verifyNames(image: Image): void {
  const at = image.header(Program.DEBUG);
  const size = image.header(Program.DEBUG_BYTES);
  if (at === 0 || size === 0) return;
  const names = size >= 8 ? image.u32(at) : fail("the section of names is cut");
  need(names < size / 4 - 1, "the section of names is cut");
  let last = 4 * (names + 2);
  for (let i = 0; i <= names; i++) {
    const offset = image.u32(at + 4 + i * 4);
    need(offset >= last && offset <= size, `name ${i} lies outside its section`);
    last = offset;
  }
}

/**
 * Throws unless the image is sound. `bindingBytes` are the sizes of the bindings it will run with (data, arena, inputs, outputs);
 * without them extents are held against the address space only.
 * @throws AclError 500002 that names the part that is wrong
 */
export function verify(bytes: Uint8Array, bindingBytes?: readonly number[]): void {
  const image = new Image(bytes);
  verifyHeader(image);
  const bindings = image.header(Program.BINDINGS);
  need(bindings >= Binding.FIRST_INPUT && bindings <= 65536, `${bindings} bindings`);
  need(bindingBytes === undefined || bindingBytes.length >= bindings, `${bindings} bindings, the frame has ${bindingBytes?.length}`);
  if (bindingBytes) {
    const arena = bindingBytes[Binding.ARENA]!;
    need(image.header(Program.ARENA_BYTES) <= arena, `needs an arena of ${image.header(Program.ARENA_BYTES)} bytes, the frame has ${arena}`);
  }
  const records = verifyTensors(image, bindingBytes);
  verifyRegions(image);
  verifyNames(image);
  const start = image.header(Program.STRIPS);
  const strips = { start, end: start + image.header(Program.STRIPS_BYTES) };
  const regions = image.header(Program.REGION_COUNT);
  for (let i = 0; i < image.header(Program.INSTRUCTION_COUNT); i++) {
    const it = image.instruction(i);
    const scope: Scope = {
      image,
      strips,
      regions,
      fail: (what) => fail(`instruction ${i} (${Opcode[it.op] ?? it.op}, node "${image.nodeName(it.node)}") ${what}`),
      tensorOf: (index) => records[index] ?? fail(`instruction ${i} names tensor ${index}, which does not exist`),
    };
    verifyInstruction(scope, it);
  }
}
