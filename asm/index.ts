/** Entry of the core module: functions only (`export *` would leak enum members as wasm exports). */
export { executeTile } from "./core/interpreter";
