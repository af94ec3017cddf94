/** Until the event loop has had its turn: timers, sockets, completions. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
