/** code, name without "Error", text code, text, reason, solution */
export type ErrorRow = readonly [number, string, string, string, string, string];
