// The processes that the tests drive: upstream (botwired selfhost), the daemon, and between them a
// gate that the test shuts, or has refuse, at its will.

import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const BINARY = join(import.meta.dirname, "../../bin/botwired");
const START_LIMIT = 60_000; // milliseconds for a server to answer on a busy machine

const given = new Set();

// freePort is a port where nobody listens. The system gives it to nobody else before its server starts, as it would those
// from 32768 on.
export async function freePort() {
  for (;;) {
    const port = randomInt(10_000, 32_768);
    if (given.has(port)) continue;
    given.add(port);
    const server = net.createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening"); // once throws the server's error
    } catch (error) {
      if (error.code === "EADDRINUSE") continue;
      throw error;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}

const REFUSALS = { refusing: [400], forbidding: [403], throttling: [429, { "Retry-After": "3600" }] };

// Gate is a proxy in front of upstream. While it is shut, each connection ends without an answer;
// while it holds, requests wait; in the states of REFUSALS, each write is answered with an error.
export class Gate {
  #target;
  #server = http.createServer((request, answer) => this.#pass(request, answer));
  #waiting = [];
  #state = "open";
  writes = []; // the paths of those that came by

  async start(target) {
    this.#target = target;
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return this.#server.address().port;
  }

  set(state) {
    this.#state = state;
    if (state === "shut") this.#server.closeAllConnections();
    if (state !== "held") this.#waiting.splice(0).forEach((go) => go());
  }

  close() {
    this.set("shut");
    this.#server.close();
  }

  async #pass(request, answer) {
    const body = await new Promise((done) => {
      const parts = [];
      request.on("data", (part) => parts.push(part)).on("end", () => done(Buffer.concat(parts))).on("error", () => done(null));
    });
    if (request.method === "PUT") this.writes.push(request.url);
    if (this.#state === "held") await new Promise((go) => this.#waiting.push(go));
    if (this.#state === "shut" || body === null) return request.socket.destroy();
    const [refusal, more] = REFUSALS[this.#state] ?? [];
    if (refusal && request.method !== "GET") {
      answer.writeHead(refusal, { "Content-Type": "application/json", ...more });
      return answer.end('{"detail":"refused by the test"}');
    }
    const { method, url, headers } = request;
    const onward = http.request({ host: "127.0.0.1", port: this.#target, method, path: url, headers, agent: false }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      reply.pipe(answer);
    });
    onward.on("error", () => request.socket.destroy());
    onward.end(body);
  }
}

// Process is a botwired that runs until it is stopped. Its log is shown if it does not start.
export class Process {
  constructor(folder, name, ready, args) {
    Object.assign(this, { folder, name, ready, args });
  }

  async start() {
    const log = openSync(join(this.folder, `${this.name}.log`), "a");
    const env = { PATH: process.env.PATH, HOME: this.folder };
    this.child = spawn(BINARY, this.args, { cwd: this.folder, env, stdio: ["ignore", log, log] });
    closeSync(log);
    const deadline = Date.now() + START_LIMIT;
    while (!(await this.#answers())) {
      if (this.child.exitCode !== null || Date.now() > deadline) throw new Error(`${this.name} does not start:\n${this.log()}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async #answers() {
    return fetch(this.ready).then((answer) => answer.ok, () => false);
  }

  log() {
    return readFileSync(join(this.folder, `${this.name}.log`), "utf8");
  }

  async stop(signal = "SIGKILL") {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill(signal);
    await ended;
  }
}

// Daemon is a botwired with an upstream of its own, and a gate between them.
export class Daemon {
  folder = mkdtempSync(join(tmpdir(), "botwired-page-"));
  gate = new Gate();
  distance = "0s"; // of upstream

  async start(...settings) {
    const [behind, port] = [await freePort(), await freePort()];
    this.upstreamUrl = `http://127.0.0.1:${behind}`;
    this.url = `http://127.0.0.1:${port}`;
    this.upstream = new Process(this.folder, "selfhost", `${this.upstreamUrl}/health`,
      ["selfhost", "--db", join(this.folder, "upstream.db"), "--listen", `127.0.0.1:${behind}`, "--embedded-latency", this.distance]);
    this.process = new Process(this.folder, "serve", `${this.url}/_botwired/readyz`, [
      "serve", "--upstream", `http://127.0.0.1:${await this.gate.start(behind)}`, "--data-dir", join(this.folder, "data"),
      "--listen", `127.0.0.1:${port}`, "--quota-writes-per-day", "1000",
      "--upstream-late-window", "2s", "--upstream-timeout", "1s", ...settings,
    ]);
    await this.upstream.start();
    await this.process.start();
    return this;
  }

  async stop() {
    await this.process?.stop();
    await this.upstream?.stop();
    this.gate.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  // write and read are an agent's; writeUpstream and readUpstream are another host's.
  write = (entry, value, author) => put(this.url, entry, value, author);
  read = (entry) => get(this.url, entry);
  writeUpstream = (entry, value) => put(this.upstreamUrl, entry, value);
  readUpstream = (entry) => get(this.upstreamUrl, entry);

  // list has the daemon ask upstream what there is.
  list = (namespace) => fetch(`${this.url}/memory/${namespace}`, { headers: { "Cache-Control": "no-cache" } });

  async status() {
    return (await fetch(`${this.url}/_botwired/status`)).json();
  }

  async flush() {
    const answer = await fetch(`${this.url}/_botwired/flush?now=true&timeout=60s`, { method: "POST" });
    if (!answer.ok) throw new Error(`flush: ${await answer.text()}`);
  }
}

async function put(base, entry, value, author = "an-agent") {
  const headers = { "Content-Type": "application/json", "Botwired-Author": author };
  const answer = await fetch(`${base}/memory/${entry}`, { method: "PUT", headers, body: JSON.stringify({ value }) });
  if (!answer.ok) throw new Error(`PUT ${entry}: ${answer.status} ${await answer.text()}`);
}

// get is a value; null if there is none.
async function get(base, entry) {
  const answer = await fetch(`${base}/memory/${entry}`);
  return answer.status === 404 ? null : (await answer.json()).value;
}
