/** A core is a function: `step` does bounded work and returns. A worker loops over it, a sim or inline driver calls it, a host thread helps its own stream. */
import { Core, CoreState, DeviceState, Header, Layout, Phase } from "../abi/device";
import { Stream } from "../abi/stream";
import { hasPolled, reached, streamAt, wakePolled } from "../sync/fence";
import { bellCount, fallAsleep, sleep, wakeUp } from "../sync/park";
import { clearReady, pickReady, setReady } from "../sync/ready";
import { clock, coreId, me, refreshTrace } from "./local";
import { hasHead, tryHead } from "./streams";
import { awaitTiles, hasTiles, tryTile } from "./tiles";

const BUDGET: i32 = 256;
/** How long a parked core sleeps at most: what a lost wake-up would cost. */
const PARK_MS: i64 = 100;
/** And while streams wait for a word or a time-out that nobody announces. */
const POLL_MS: i64 = 1;

/** Work on one stream: tiles of its open region first, then its head. 0: nothing to do there, and its ready bit is down unless something came up. */
function visit(stream: u32, budget: i32): i32 {
  const sc = streamAt(stream);
  let did = 0;
  while (did < budget) {
    const more = tryTile(stream, sc, budget - did);
    if (more < 0) return -1;
    if (more == 0 && !awaitTiles(sc)) break;
    did += more;
  }
  if (did < budget) {
    const more = tryHead(stream, sc, budget - did);
    if (more < 0) return -1;
    did += more;
  }
  if (did == 0) {
    const priority = load<u32>(sc, Stream.PRIORITY);
    clearReady(stream, priority);
    if (hasTiles(sc) || hasHead(sc)) setReady(stream, priority);
  }
  return did;
}

/** See CoreExports.step. `tries` bounds the visits that find nothing (a bit that others keep setting). */
export function step(budget: i32): i32 {
  refreshTrace();
  wakePolled();
  let did = 0;
  let tries = 64;
  while (did < budget && tries > 0) {
    const stream = pickReady();
    if (stream < 0) break;
    const more = visit(stream, budget - did);
    if (more < 0) return -1;
    if (more == 0) tries--;
    did += more;
  }
  if (did) atomic.store<u32>(me, Phase.IDLE, Core.PHASE);
  return did;
}

function closing(): bool {
  return atomic.load<u32>(Layout.HEADER + Header.STATE) != DeviceState.OPEN;
}

/** See CoreExports.loop. */
export function loop(spinUs: i32): i32 {
  while (!closing()) {
    let more = step(BUDGET);
    if (more > 0) continue;
    if (more == 0) more = spin(spinUs);
    if (more > 0) continue;
    if (more == 0) more = park();
    if (more < 0) return -1;
  }
  atomic.store<u32>(me, CoreState.STOPPED, Core.STATE);
  return 0;
}

function spin(spinUs: i32): i32 {
  const end = clock() + <f64>spinUs;
  do {
    for (let i = 0; i < 64; i++) {
      const more = step(BUDGET);
      if (more != 0) return more;
    }
  } while (clock() < end);
  return 0;
}

/** Looks once more after it counts as asleep, then sleeps: pairs with `bell`. */
function park(): i32 {
  const seen = bellCount();
  fallAsleep(coreId);
  const more = closing() ? 0 : step(BUDGET);
  if (more == 0 && !closing()) {
    store<u32>(me, load<u32>(me, Core.PARKS) + 1, Core.PARKS);
    sleep(seen, hasPolled() ? POLL_MS : PARK_MS);
  }
  wakeUp(coreId);
  return more;
}

/** See CoreExports.help. */
export function help(stream: u32, sequence: f64): i32 {
  refreshTrace();
  const sc = streamAt(stream);
  let did = 0;
  while (!reached(sc, <u64>sequence)) {
    wakePolled();
    did = visit(stream, BUDGET);
    // Opening a region is no work yet: its tiles are the next visit's, if nobody else takes them. Those of a user's kernel are for the cores.
    if (did < 0 || (did == 0 && (!hasTiles(sc) || load<u32>(sc, Stream.UNBOUNDED)))) break;
  }
  if (did < 0) return -1;
  atomic.store<u32>(me, Phase.IDLE, Core.PHASE);
  return reached(sc, <u64>sequence) ? 1 : 0;
}
