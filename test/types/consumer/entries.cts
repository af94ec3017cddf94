/** As entries.mts, from CommonJS. */
import acl = require("npurt/acl");
import ort = require("npurt/ort");
import rt = require("npurt/rt");
import timeline = require("npurt/timeline");

export const code: number = acl.acl.init();
export const calls: readonly string[] = Object.keys(rt.rt);
export const create: (model: string) => Promise<ort.InferenceSession> = (model) => ort.InferenceSession.create(model);
export const write = timeline.writeTimeline;
