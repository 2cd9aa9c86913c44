#!/usr/bin/env node
// Runs the program of this platform, which is a package of its own, with everything that was given: arguments, streams, signals.
"use strict";

const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;
const name = `kenning-mcp-${platform}`;
const file = process.platform === "win32" ? "kenning.exe" : "kenning";

let program;
try {
  program = require.resolve(`${name}/${file}`);
} catch {
  console.error(
    `kenning: there is no program for ${platform} here. It is in the package \`${name}\`, which npm leaves out with ` +
      "`--omit=optional`; install that package, or build Kenning with `cargo install`.",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`kenning: the program can't be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? 1);
  }
});
