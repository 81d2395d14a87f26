"use strict";

// Real servers for the tests: botwired, and BotWire's service, on addresses that the system chooses.
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { mkdtempSync, rmSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { createInterface } = require("node:readline");

const binary = process.env.BOTWIRED_BINARY ?? path.join(__dirname, "../../../bin/botwired");

/** A process of the binary. It keeps its address and its files from one start to the next. */
class Server {
  address = "127.0.0.1:0";
  #arguments;
  #folder = mkdtempSync(path.join(tmpdir(), "botwired-node-"));
  #process;

  /** @param {(folder: string) => string[]} arguments_ */
  constructor(arguments_) {
    this.#arguments = arguments_(this.#folder);
  }

  get url() {
    return `http://${this.address}`;
  }

  /** Starts it, and returns when it listens. */
  async start() {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^BOTWIRE|PROXY/i.test(name)));
    this.#process = spawn(binary, [...this.#arguments, "--listen", this.address], { cwd: this.#folder, env, stdio: ["ignore", "ignore", "pipe"] });
    const said = [];
    const lines = createInterface({ input: this.#process.stderr });
    for await (const line of lines) {
      said.push(line);
      const { msg, address } = JSON.parse(line);
      if (msg !== "listening") continue;
      this.address = address;
      this.#process.stderr.resume(); // nobody reads the rest
      return this;
    }
    throw new Error(`${binary} ${this.#arguments.join(" ")} has ended: ${said.join("\n")}`);
  }

  /** Ends it: as a power cut would, with SIGKILL. */
  async end(signal = "SIGKILL") {
    const ended = once(this.#process, "exit");
    this.#process.kill(signal);
    await ended;
  }

  /** Ends it for good, and removes its files. */
  async remove() {
    if (this.#process?.exitCode === null && this.#process.signalCode === null) await this.end();
    rmSync(this.#folder, { recursive: true });
  }
}

/** A botwired on its embedded upstream. */
const daemon = (...settings) =>
  new Server((folder) => ["serve", "--upstream", "embedded", "--embedded-latency", "1ms", "--data-dir", path.join(folder, "data"), ...settings]);

/** A plain BotWire. */
const selfhost = () => new Server((folder) => ["selfhost", "--db", path.join(folder, "memory.db")]);

/** A botwired in front of a server. */
const behind = (upstream) => new Server((folder) => ["serve", "--upstream", upstream.url, "--data-dir", path.join(folder, "data")]);

module.exports = { binary, behind, daemon, selfhost };
