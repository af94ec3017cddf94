/** What an ES module of a user writes; compiled, never run. */
import { AclError, Device, type DeviceInfo, type DtypeName, Executor, Stream, Tensor } from "npurt";

export async function classify(model: string, pixels: Float32Array): Promise<number | undefined> {
  const device = await Device.open({ driver: "threads", cores: 2, memoryBytes: 64 * 2 ** 20 });
  try {
    const executor = await Executor.load(model, { device });
    const results = await executor.run({ image: new Tensor("float32", [1, 1, 28, 28], pixels) });
    const first: Tensor | undefined = results["probability"];
    executor.dispose();
    return first?.dims[0];
  } catch (error) {
    if (error instanceof AclError) console.error(error.code, error.message, error.solution);
    throw error;
  } finally {
    await device.close();
  }
}

export async function copy(device: Device, signal: AbortSignal): Promise<DeviceInfo> {
  const stream: Stream = device.createStream();
  const buffer = device.allocate(64);
  stream.memcpy(buffer, new Uint8Array(64));
  await stream.synchronize({ timeoutMs: 1000, signal });
  buffer.dispose();
  return device.info();
}

export const dtype: DtypeName = "float32";
// @ts-expect-error a dtype that does not exist
export const wrong: DtypeName = "float31";
// @ts-expect-error a driver that does not exist
export const refused = Device.open({ driver: "cloud" });
