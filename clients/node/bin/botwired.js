#!/usr/bin/env node
"use strict";

// Runs the program of this platform in place of this script: the same arguments, streams, signals and
// exit code.
const { spawn } = require("node:child_process");
const { accessSync, closeSync, constants: files, openSync } = require("node:fs");
const { constants } = require("node:os");
const { binary } = require("../index.js");

const args = process.argv.slice(2);
let program;
try {
  program = binary();
  accessSync(program, files.X_OK);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
if (process.execve && process.platform !== "win32") {
  process.execve(program, ["botwired", ...args]); // Node 22.15 and later: nothing stays in between
}

// A terminal sends these to all processes in the foreground, and the program is one of them: passed
// on, they would reach it twice, and a second Ctrl-C ends it without draining. On Windows, all
// signals come from the console.
const ofTerminal = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGBREAK"];
const others = ["SIGTERM", "SIGUSR1", "SIGUSR2"];
const fromTerminal = process.platform === "win32" || hasTerminal();

const child = spawn(program, args, { stdio: "inherit", argv0: "botwired", windowsHide: false });
for (const signal of [...ofTerminal, ...others]) {
  if (!(signal in constants.signals)) continue;
  process.on(signal, () => {
    if (!(fromTerminal && ofTerminal.includes(signal))) child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`botwired: ${program} does not start: ${error.message}`);
  process.exit(1);
});

child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.exitCode = 128 + constants.signals[signal]; // for SIGPIPE, which Node ignores
  process.removeAllListeners(signal);
  process.kill(process.pid, signal); // the caller sees how the program has ended
});

/** Whether this process has a controlling terminal. */
function hasTerminal() {
  try {
    closeSync(openSync("/dev/tty", files.O_RDONLY | files.O_NOCTTY));
    return true;
  } catch {
    return false;
  }
}
