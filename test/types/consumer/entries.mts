/** Every entry of the package as an ES module of a user imports it; compiled, never run. */
import * as npurt from "npurt";
import { acl } from "npurt/acl";
import { InferenceSession, Tensor } from "npurt/ort";
import { rt } from "npurt/rt";
import { writeTimeline } from "npurt/timeline";

export const code: number = acl.init();
export const calls: readonly string[] = Object.keys(rt);

export async function score(model: string, pixels: Float32Array): Promise<Tensor | undefined> {
  const session = await InferenceSession.create(model, { executionProviders: ["npurt"] });
  const results = await session.run({ image: new Tensor("float32", pixels, [1, 1, 28, 28]) });
  return results["probability"];
}

export async function trace(file: string): Promise<void> {
  const device = await npurt.Device.open({ trace: true });
  writeTimeline(device, file);
  await device.close();
}
// @ts-expect-error an entry that does not exist
export type Inner = typeof import("npurt/dist/lib/host/machine");
