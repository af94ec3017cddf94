/** What differs between chips: limits, cores, rates. Data only; figures are public ones of the chip family, memory is what the emulator gives a device by default. */

export interface SocProfile {
  readonly name: string;
  /** Streams of a device, default streams included. */
  readonly streams: number;
  readonly events: number;
  readonly notifies: number;
  readonly cubeCores: number;
  readonly vectorCores: number;
  readonly aicpuCores: number;
  /** Unified buffer of a vector core. */
  readonly bufferBytes: number;
  readonly l2Bytes: number;
  readonly memoryBytes: number;
  /** Bytes per microsecond, by direction: device to device, host to device, device to host, host to host. */
  readonly bandwidths: readonly [number, number, number, number];
  /** What a task costs at least on a virtual clock, in microseconds. */
  readonly taskUs: number;
  /** Operations per microsecond: f16 matrix and f32 vector. */
  readonly cubeRate: number;
  readonly vectorRate: number;
  /** Streams that may be at work at once; 0 = no limit. */
  readonly lanes: number;
  /** Allocations are charged this much on top of their rounded size. */
  readonly allocationExtra: number;
  /** Counting notifies, bfloat16, and INF/NaN arithmetic are there. */
  readonly modern: boolean;
  readonly architecture: number;
}

const MIB = 2 ** 20;

export const SOC_PROFILES: readonly SocProfile[] = [
  {
    name: "Ascend910B3",
    streams: 1984,
    events: 65536,
    notifies: 8192,
    cubeCores: 20,
    vectorCores: 40,
    aicpuCores: 6,
    bufferBytes: 192 * 1024,
    l2Bytes: 192 * MIB,
    memoryBytes: 1024 * MIB,
    bandwidths: [1_600_000, 25_000, 25_000, 10_000],
    taskUs: 2,
    cubeRate: 313_000_000,
    vectorRate: 9_800_000,
    lanes: 0,
    allocationExtra: 32,
    modern: true,
    architecture: 2201,
  },
  {
    name: "Ascend910A",
    streams: 2048,
    events: 65535,
    notifies: 1024,
    cubeCores: 32,
    vectorCores: 32,
    aicpuCores: 14,
    bufferBytes: 256 * 1024,
    l2Bytes: 32 * MIB,
    memoryBytes: 1024 * MIB,
    bandwidths: [1_200_000, 16_000, 16_000, 8000],
    taskUs: 3,
    cubeRate: 256_000_000,
    vectorRate: 8_000_000,
    lanes: 0,
    allocationExtra: 32,
    modern: false,
    architecture: 1001,
  },
  {
    name: "Ascend310P3",
    streams: 1024,
    events: 1023,
    notifies: 1024,
    cubeCores: 8,
    vectorCores: 7,
    aicpuCores: 7,
    bufferBytes: 256 * 1024,
    l2Bytes: 16 * MIB,
    memoryBytes: 512 * MIB,
    bandwidths: [204_000, 12_000, 12_000, 8000],
    taskUs: 4,
    cubeRate: 70_000_000,
    vectorRate: 2_000_000,
    lanes: 0,
    allocationExtra: 32,
    modern: false,
    architecture: 2002,
  },
  {
    name: "Ascend310B1",
    streams: 512,
    events: 1023,
    notifies: 1024,
    cubeCores: 1,
    vectorCores: 1,
    aicpuCores: 3,
    bufferBytes: 256 * 1024,
    l2Bytes: 4 * MIB,
    memoryBytes: 256 * MIB,
    bandwidths: [102_000, 40_000, 40_000, 10_000],
    taskUs: 6,
    cubeRate: 10_000_000,
    vectorRate: 400_000,
    lanes: 0,
    allocationExtra: 32,
    modern: false,
    architecture: 3002,
  },
];

export const DEFAULT_SOC = "Ascend910B3";

export function socProfile(name: string): SocProfile | undefined {
  return SOC_PROFILES.find((profile) => profile.name === name);
}
