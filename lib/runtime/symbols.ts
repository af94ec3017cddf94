/** Symbol.dispose and Symbol.asyncDispose for Node 20, where they are absent: the same registered symbols that TypeScript's helpers and later Nodes look up. */
const holder = Symbol as unknown as { dispose?: symbol; asyncDispose?: symbol };
for (const name of ["dispose", "asyncDispose"] as const) {
  if (holder[name] === undefined) {
    Object.defineProperty(Symbol, name, { value: Symbol.for(`nodejs.${name}`), configurable: false, enumerable: false, writable: false });
  }
}

export {};
