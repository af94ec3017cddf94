/** Tiles: claiming them from the open region, running them in phase KERNEL, and finding the last one. */
import { Context, Core, Layout, Phase, TraceKind, Work } from "../abi/device";
import { Frame, Stream } from "../abi/stream";
import { Instruction, Program, Region } from "../abi/program";
import { setPoison } from "../kernels/probe";
import { executeTile } from "./interpreter";
import { contextOf } from "./fault";
import { clock, coreId, isHost, me, scratch, traceRing } from "./local";
import { advance } from "./streams";
import { catchUp, closeRegion, spendTile } from "./time";
import { trace } from "./trace";

/** Looks at the ticket before a core without a tile turns elsewhere: less than a microsecond. */
const STAY: i32 = 64;

/**
 * From here until `leaveKernel` this core holds the tile (or task) that its record names, and no lock. A trap unwinds to the JS catch, which calls `recover`.
 * The record is complete before PHASE says KERNEL: the watchdog reads it after winning PHASE.
 */
export function enterKernel(stream: u32, sc: usize, instruction: usize, tile: u32, kind: Work): void {
  store<u32>(me, stream + 1, Core.STREAM);
  store<u32>(me, <u32>instruction, Core.INSTRUCTION);
  store<u32>(me, tile, Core.TILE);
  store<u32>(me, kind, Core.KIND);
  store<u32>(me, load<u32>(sc, Stream.CONTEXT), Core.CONTEXT);
  store<u32>(me, load<u32>(me, Core.BEAT) + 1, Core.BEAT);
  store<u32>(me, 0, Core.POISON);
  setPoison(me + Core.POISON);
  // release: pairs with the watchdog's CAS KERNEL -> KILLED (lib/host/watchdog.ts)
  atomic.store<u32>(me, Phase.KERNEL, Core.PHASE);
  // After PHASE: pairs with ContextCore.poison, which sets the context's word first and then those of its cores in KERNEL.
  if (atomic.load<u32>(contextOf(sc), Context.POISON)) atomic.store<u32>(me, 1, Core.POISON);
}

/** Within a tile another block begins: fault records name it, and time limits begin anew. */
export function nextBlock(block: u32): void {
  store<u32>(me, block, Core.TILE);
  store<u32>(me, load<u32>(me, Core.BEAT) + 1, Core.BEAT);
  atomic.store<u32>(me, 0, Core.POISON);
  // After POISON: pairs with ContextCore.poison, as in `enterKernel`.
  const context = Layout.CONTEXTS + <usize>load<u32>(me, Core.CONTEXT) * Context.SIZE;
  if (atomic.load<u32>(context, Context.POISON)) atomic.store<u32>(me, 1, Core.POISON);
}

/** False: the watchdog has won; this core must touch nothing more. */
export function leaveKernel(): bool {
  return atomic.cmpxchg<u32>(me, Phase.KERNEL, Phase.DEVICE, Core.PHASE) == Phase.KERNEL;
}

/** Runs one claimed tile of the open region. False: killed meanwhile. */
export function runTile(stream: u32, sc: usize, region: usize, index: u32): bool {
  const program = <usize>load<u32>(sc, Stream.PROGRAM);
  const frame = <usize>load<u32>(sc, Stream.FRAME);
  let instruction = program + load<u32>(program, Program.INSTRUCTIONS) + (<usize>load<u32>(region, Region.FIRST) << 6);
  let tile = index;
  let tiles = load<u32>(instruction, Instruction.TILES);
  while (tile >= tiles) {
    tile -= tiles;
    instruction += Instruction.SIZE;
    tiles = load<u32>(instruction, Instruction.TILES);
  }
  // A run that has failed or was cancelled only counts its tiles down.
  if (atomic.load<u32>(sc, Stream.RUN_FAULT) || atomic.load<u32>(frame, Frame.CANCEL)) return true;
  catchUp(sc);
  const start = traceRing ? clock() : 0;
  enterKernel(stream, sc, instruction, tile, Work.TILE);
  executeTile(program, instruction, tile, frame, scratch);
  if (!leaveKernel()) return false;
  store<u32>(me, load<u32>(me, Core.TILES) + 1, Core.TILES);
  spendTile(sc, region);
  if (traceRing) {
    const sequence = load<u64>(sc, Stream.FENCE) + 1;
    trace(TraceKind.TILE, stream, load<u8>(instruction, Instruction.OP), sequence, load<u32>(instruction, Instruction.NODE), tile, program, start);
  }
  return true;
}

/**
 * The tiles of a region are cut into two shares, and each core begins with its own: instructions that follow one another are cut alike, so a core finds
 * most of what it reads in its own cache. (From the other's cache 19 GB/s, from its own 100.)
 */
// @ts-ignore: decorator
@inline
function ownShare(): u32 {
  return coreId & 1;
}

// @ts-ignore: decorator
@inline
function ticketOf(sc: usize, share: u32): usize {
  return sc + Stream.TICKETS + (<usize>share << 3);
}

/** One past the last tile of a share. */
// @ts-ignore: decorator
@inline
function endOf(share: u32, tiles: u32): u32 {
  return share ? tiles : (tiles + 1) >> 1;
}

// @ts-ignore: decorator
@inline
export function hasTiles(sc: usize): bool {
  return (<u32>atomic.load<u64>(ticketOf(sc, 0)) | <u32>atomic.load<u64>(ticketOf(sc, 1))) != 0;
}

/**
 * Claims and runs one tile. Returns the work done (0: none to claim; more than 1: it was the last of its region and the stream went on), -1 if killed.
 */
export function tryTile(stream: u32, sc: usize, budget: i32): i32 {
  const own = ownShare();
  const more = tryShare(stream, sc, own, budget);
  return more != 0 ? more : tryShare(stream, sc, own ^ 1, budget);
}

/** The claim is a CAS on (epoch, tiles left): a fetch-add could take from a region that opened meanwhile. */
function tryShare(stream: u32, sc: usize, share: u32, budget: i32): i32 {
  const at = ticketOf(sc, share);
  let ticket = atomic.load<u64>(at);
  while (<u32>ticket) {
    // Read after the ticket: if the claim below succeeds, the region is still that run's.
    if (isHost() && load<u32>(sc, Stream.UNBOUNDED)) return 0;
    const seen = atomic.cmpxchg<u64>(at, ticket, ticket - 1);
    if (seen == ticket) {
      // The claimed tile is not finished, so the region cannot close: PROGRAM and REGION stand still (published by TICKETS in `publishTiles`).
      const program = <usize>load<u32>(sc, Stream.PROGRAM);
      const region = program + load<u32>(program, Program.REGIONS) + <usize>load<u32>(sc, Stream.REGION) * Region.SIZE;
      if (!runTile(stream, sc, region, endOf(share, load<u32>(region, Region.TILES)) - <u32>ticket)) return -1;
      const more = finishTile(stream, sc, budget - 1);
      return more < 0 ? -1 : more + 1;
    }
    ticket = seen;
  }
  return 0;
}

/** Counts one tile as finished. True: it was the last, the region is closed, and the stream is the caller's. */
export function endTile(sc: usize): bool {
  // The RMW orders every tile's writes before the completer's reads.
  if (atomic.sub<u32>(sc, 1, Stream.PENDING) != 1) return false;
  closeRegion(sc);
  store<u32>(sc, load<u32>(sc, Stream.REGION) + 1, Stream.REGION);
  return true;
}

/** As `endTile`; the core that finishes the last one takes the stream on. Returns the work done there, -1 if killed. */
export function finishTile(stream: u32, sc: usize, budget: i32): i32 {
  return endTile(sc) ? advance(stream, sc, budget) : 0;
}

/** Waits a moment for the next region of a run whose last tiles others have. True: there are tiles that the caller may claim. */
export function awaitTiles(sc: usize): bool {
  if (isHost() && load<u32>(sc, Stream.UNBOUNDED)) return false;
  for (let i = 0; i < STAY; i++) {
    if (hasTiles(sc)) return true;
    if (!atomic.load<u32>(sc, Stream.PENDING)) return false;
  }
  return false;
}

/** Opens a region of two tiles at least to all cores. Returns the first of the caller's share, which it keeps. PENDING and REGION are written before. */
export function publishTiles(sc: usize, tiles: u32): u32 {
  const own = ownShare(), half = endOf(0, tiles);
  openShare(ticketOf(sc, own ^ 1), own ? half : tiles - half);
  openShare(ticketOf(sc, own), (own ? tiles - half : half) - 1);
  return own ? half : 0;
}

function openShare(ticket: usize, left: u32): void {
  const epoch = (load<u64>(ticket) >> 32) + 1;
  // release: publishes PROGRAM, FRAME, REGION and PENDING; pairs with the claim CAS
  atomic.store<u64>(ticket, (epoch << 32) | <u64>left);
}
