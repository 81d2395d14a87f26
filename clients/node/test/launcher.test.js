"use strict";

// The launcher, with a program of the tests' own in the place of botwired's. Each test runs twice where
// Node can replace the process: once so, and once with the program as a child, as older Nodes do it.
const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { after, afterEach, before, describe, test } = require("node:test");

// A test that hangs fails, and its processes end with it.
const limit = { timeout: 20_000 };
const children = new Set();
afterEach(() => {
  for (const child of children) {
    try {
      process.kill(-child.pid, "SIGKILL"); // the launcher and the program
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
  }
  children.clear();
});

const here = path.join(__dirname, "..");
const own = `@botwired/${process.platform}-${process.arch}`;

// The program says what it was started with, and then does as its first argument says.
const program = `#!${process.execPath}
const [what, ...rest] = process.argv.slice(2);
if (what === "repeat") {
  console.log(JSON.stringify(rest));
  process.stdin.pipe(process.stderr);
} else if (what === "exit") {
  process.exitCode = Number(rest[0]);
} else if (what === "die") {
  process.on("SIGPIPE", () => {}).removeAllListeners("SIGPIPE"); // the default again, which Node takes away
  process.kill(process.pid, "SIGPIPE");
} else if (what === "count") {
  let count = 0;
  process.on("SIGINT", () => console.log("SIGINT " + ++count));
  process.stdin.once("data", () => process.stdin.destroy());
  console.log("ready");
} else if (what === "wait") {
  const timer = setInterval(() => {}, 1000);
  for (const signal of rest) {
    process.on(signal, () => {
      console.log(signal);
      clearInterval(timer);
    });
  }
  console.log("ready");
}
`;

/** Installs the launcher into a new folder, with what package.json says and a program, and returns the folder. */
function install({ names = [own], installed = [own] } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), "botwired-node-"));
  const launcher = path.join(folder, "node_modules", "botwired");
  const manifest = JSON.parse(readFileSync(path.join(here, "package.json"), "utf8"));
  for (const each of manifest.files) cpSync(path.join(here, each), path.join(launcher, each), { recursive: true });
  manifest.optionalDependencies = Object.fromEntries(names.map((name) => [name, "0.0.0"]));
  writeFileSync(path.join(launcher, "package.json"), JSON.stringify(manifest));
  for (const name of installed) {
    const bin = path.join(folder, "node_modules", name, "bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(path.join(bin, "botwired"), program);
    chmodSync(path.join(bin, "botwired"), 0o755);
  }
  return folder;
}

const launcherOf = (folder) => path.join(folder, "node_modules", "botwired", "bin", "botwired.js");

/** Starts the launcher of a folder as the leader of a session of its own, without a terminal. */
function start(folder, args, nodeArgs = []) {
  return watch(spawn(process.execPath, [...nodeArgs, launcherOf(folder), ...args], { detached: true }));
}

/** Gathers what a process says: child.said so far, and child.ended, a promise of all and of its end. */
function watch(child) {
  children.add(child);
  child.said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => {
      child.said[name] += text;
    });
  }
  child.ended = once(child, "close").then(([code, signal]) => ({ code, signal, ...child.said }));
  return child;
}

/** Waits until a process has said something. */
async function says(child, text) {
  while (!child.said.stdout.includes(text)) {
    await Promise.race([once(child.stdout, "data"), child.ended.then((end) => assert.fail(JSON.stringify(end)))]);
  }
}

/** Starts a program that waits for signals, and returns once it does. */
async function startWaiting(folder, signals, nodeArgs) {
  const child = start(folder, ["wait", ...signals], nodeArgs);
  await says(child, "ready");
  return child;
}

const ways = [["as a child", ["--import", "data:text/javascript,delete process.execve"]]];
if (process.execve) ways.push(["in place of the launcher", []]);

for (const [way, nodeArgs] of ways) {
  describe(way, () => {
    let folder;
    before(() => {
      folder = install();
    });
    after(() => rmSync(folder, { recursive: true }));

    test("the program gets the arguments and the streams", limit, async () => {
      const child = start(folder, ["repeat", "--flag", "a b", "", "--"], nodeArgs);
      child.stdin.end("from stdin");
      assert.deepEqual(await child.ended, { code: 0, signal: null, stdout: '["--flag","a b","","--"]\n', stderr: "from stdin" });
    });

    test("the exit code is the program's", limit, async () => {
      for (const code of [0, 1, 75]) {
        assert.equal((await start(folder, ["exit", String(code)], nodeArgs).ended).code, code);
      }
    });

    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2"]) {
      test(`${signal} reaches the program`, limit, async () => {
        const child = await startWaiting(folder, [signal], nodeArgs);
        child.kill(signal);
        const { code, stdout } = await child.ended;
        assert.deepEqual([code, stdout], [0, `ready\n${signal}\n`]);
      });

      test(`${signal} that ends the program ends the launcher in the same way`, limit, async () => {
        const child = await startWaiting(folder, [], nodeArgs);
        child.kill(signal);
        assert.equal((await child.ended).signal, signal);
      });
    }

    // Python has the pseudo-terminal that Node lacks.
    test("Ctrl-C on a terminal reaches the program once", limit, async () => {
      const onTerminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
      const child = watch(spawn("python3", ["-c", onTerminal, process.execPath, ...nodeArgs, launcherOf(folder), "count"], { detached: true }));
      await says(child, "ready");
      child.stdin.write("\x03");
      await says(child, "SIGINT");
      child.stdin.write("end\n");
      const { code, stdout } = await child.ended;
      assert.deepEqual([code, stdout.match(/SIGINT \d/g)], [0, ["SIGINT 1"]]);
    });

    test("a pipe that breaks is an end by a signal", limit, async () => {
      const { code, signal } = await start(folder, ["die"], nodeArgs).ended;
      assert.ok(code === 141 || signal === "SIGPIPE", `${code}, ${signal}`);
    });

    test("a program that cannot be executed is an error", limit, async () => {
      const broken = install();
      chmodSync(path.join(broken, "node_modules", own, "bin", "botwired"), 0o644);
      const { code, stderr } = await start(broken, [], nodeArgs).ended;
      rmSync(broken, { recursive: true });
      assert.equal(code, 1);
      assert.match(stderr, /EACCES.*botwired/);
    });
  });
}

test("without the platform's package, the error says what to install", limit, async () => {
  const folder = install({ installed: [] });
  const { code, stderr } = await start(folder, ["version"]).ended;
  rmSync(folder, { recursive: true });
  assert.equal(code, 1);
  assert.ok(stderr.includes(own) && stderr.includes("--omit=optional") && stderr.includes("npm install botwired"), stderr);
  assert.equal(stderr.split("\n").length, 2, "one line");
});

test("where there is no package for the platform, the error names those there are", limit, async () => {
  const folder = install({ names: ["@botwired/plan9-mips", "@botwired/amiga-m68k"], installed: [] });
  const { code, stderr } = await start(folder, ["version"]).ended;
  rmSync(folder, { recursive: true });
  assert.equal(code, 1);
  assert.ok(stderr.includes("only for plan9-mips, amiga-m68k") && stderr.includes("go install"), stderr);
});

test("a clone's package says how to build the program", limit, async () => {
  const folder = install({ names: [], installed: [] });
  const { code, stderr } = await start(folder, ["version"]).ended;
  rmSync(folder, { recursive: true });
  assert.equal(code, 1);
  assert.ok(stderr.includes("make build") && !stderr.includes("go install"), stderr);
});

test("a program finds the path, by import and by require", limit, async () => {
  const folder = install();
  const script = path.join(folder, "agent.mjs");
  writeFileSync(
    script,
    'import { binary } from "botwired"; import { createRequire } from "node:module";\n' +
      'console.log(binary() === createRequire(import.meta.url)("botwired").binary(), binary());',
  );
  const child = spawn(process.execPath, [script]);
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    said += text;
  });
  await once(child, "close");
  rmSync(folder, { recursive: true });
  assert.match(said, /^true .*[/]bin[/]botwired\n$/);
});
