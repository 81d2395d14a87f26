/** Values under the keys of one namespace, by fetch. */
export class Memory {
  #base;
  #headers = {};
  #patience;

  /** A URL such as http://x:TOKEN@host:2689 has a token. Patience is how long a call tries again, in milliseconds. */
  constructor(namespace, { url = process.env.BOTWIRE_URL ?? "http://127.0.0.1:2689", patience = 30_000 } = {}) {
    const { origin, pathname, password } = new URL(url);
    this.#base = `${origin}${pathname.replace(/\/$/, "")}/memory/${namespace}`;
    this.#patience = patience;
    if (password) this.#headers.authorization = `Bearer ${decodeURIComponent(password)}`;
  }

  /** The value of a key, undefined if there is none. */
  async get(key) {
    return (await this.#read(key)).value;
  }

  /** Changes a value to change(value). Of several agents at once, none overwrites what another has written. */
  async update(key, change) {
    const deadline = Date.now() + this.#patience;
    for (let pause = 5; ; pause = Math.min(2 * pause, 1000)) {
      const { value, tag } = await this.#read(key);
      const condition = value === undefined ? given("if-none-match", "*") : given("if-match", tag);
      const body = JSON.stringify({ value: JSON.stringify(change(value)) });
      const answer = await this.#ask("PUT", key, { ...condition, "content-type": "application/json" }, body);
      if (answer.ok) return;
      if (answer.status !== 412 || Date.now() > deadline) throw await refusal(answer); // 412: another agent was faster
      await new Promise((resolve) => setTimeout(resolve, Math.random() * pause));
    }
  }

  async #read(key) {
    const answer = await this.#ask("GET", key);
    if (answer.status === 404) return {};
    if (!answer.ok) throw await refusal(answer);
    return { value: JSON.parse((await answer.json()).value), tag: tagOf(answer) };
  }

  /** Tries again while the daemon restarts, or while it can answer nobody. */
  async #ask(method, key, headers = {}, body = undefined) {
    const deadline = Date.now() + this.#patience;
    for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
      try {
        const signal = AbortSignal.timeout(this.#patience); // of one attempt
        const answer = await fetch(`${this.#base}/${key}`, { method, headers: { ...this.#headers, ...headers }, body, signal });
        if (answer.status !== 503 || Date.now() > deadline) return answer;
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

async function refusal(answer) {
  return new Error(`botwired answers ${answer.status}: ${(await answer.json()).detail}`);
}

// A gateway that compresses answers changes or drops their ETag: botwired says the same in a header of its own, and takes
// conditions in one. A plain BotWire has no tags.
function tagOf(answer) {
  const tag = answer.headers.get("botwired-etag") ?? answer.headers.get("etag");
  if (!tag && answer.headers.has("cache-status")) throw new Error("a gateway on the way drops botwired's ETag: no update is safe");
  return tag;
}

const given = (name, value) => (value ? { [name]: value, [`botwired-${name}`]: value } : {});
