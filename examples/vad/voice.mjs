/**
 * A waveform to listen to: ten seconds of faint noise with three stretches of a made-up voice. The voice is what speech synthesisers of the 1960s
 * made: pulses of the vocal cords through three resonances that move from vowel to vowel, in syllables.
 */

export const RATE = 16000;
export const SECONDS = 10;
/** When somebody speaks, in seconds. */
export const SPOKEN = [
  [1.0, 3.0],
  [4.4, 6.2],
  [7.6, 9.2],
];

/** Resonances of some vowels in Hz: how open the mouth is, where the tongue is, and a third that hardly moves. */
const VOWELS = [
  [730, 1090, 2440],
  [270, 2290, 3010],
  [570, 840, 2410],
  [530, 1840, 2480],
  [300, 870, 2240],
];
const BANDWIDTHS = [80, 100, 140];
const SYLLABLE = 0.2;
const NOISE = 0.0008;
const LOUDNESS = 0.25;

/** Numbers from -1 to 1, the same ones every time. */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** A filter that rings at `frequency`, which may change from sample to sample. */
function resonance(bandwidth) {
  const radius = Math.exp((-Math.PI * bandwidth) / RATE);
  let [first, second] = [0, 0];
  return (input, frequency) => {
    const turn = 2 * radius * Math.cos((2 * Math.PI * frequency) / RATE);
    const output = (1 - radius) * input * 2 + turn * first - radius * radius * second;
    [second, first] = [first, output];
    return output;
  };
}

/** `count` samples of the voice. */
function speak(count, random) {
  const filters = BANDWIDTHS.map(resonance);
  const samples = new Float32Array(count);
  let phase = 0;
  let air = 0;
  for (let i = 0; i < count; i++) {
    const time = i / RATE;
    const syllable = Math.floor(time / SYLLABLE);
    const within = time / SYLLABLE - syllable;
    const [from, to] = [VOWELS[syllable % VOWELS.length], VOWELS[(syllable + 1) % VOWELS.length]];
    // The voice falls over the sentence and trembles a little.
    phase += (135 - (25 * i) / count + 4 * Math.sin(2 * Math.PI * 5 * time)) / RATE;
    let pulse = 0;
    if (phase >= 1) {
      phase -= 1;
      pulse = 1;
    }
    // The cords do not close at once: their sound falls off towards high frequencies.
    air = 0.9 * air + pulse + 0.02 * random();
    const glide = within * within * (3 - 2 * within);
    let sound = air;
    filters.forEach((filter, f) => {
      sound = filter(sound, from[f] + (to[f] - from[f]) * glide);
    });
    samples[i] = sound * Math.sin(Math.PI * within) ** 0.5;
  }
  return samples;
}

export function makeWaveform() {
  const random = randomFrom(7);
  const waveform = Float32Array.from({ length: RATE * SECONDS }, () => NOISE * random());
  for (const [from, to] of SPOKEN) {
    const voice = speak(Math.round((to - from) * RATE), random);
    const peak = voice.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    voice.forEach((value, i) => (waveform[Math.round(from * RATE) + i] += (LOUDNESS * value) / peak));
  }
  return waveform;
}
