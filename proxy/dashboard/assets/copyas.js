// An entry as something to run: curl, Python, or the configuration of an MCP client.

import { html, useState } from "./vendor/htm-preact.js";
import { CopyButton, Dialog, Segments } from "./ui.js";

// Namespaces and keys hold nothing that a shell or a string of Python would take for its own.
const RECIPES = {
  curl: ({ namespace, key }) => `curl ${location.origin}/memory/${namespace}/${key}`,
  Python: ({ namespace, key }) => `from botwire import Memory

memory = Memory("${namespace}", base_url="${location.origin}")
value = memory.get("${key}")
`,
  MCP: () => JSON.stringify({
    mcpServers: { botwired: { command: "botwired", args: ["mcp", `--listen=${location.host}`] } },
  }, null, 2),
};

const NOTES = {
  curl: "Where the daemon wants a token, add -H 'Authorization: Bearer TOKEN'.",
  Python: "Where the daemon wants a token, the URL is http://x:TOKEN@host:port.",
  MCP: "botwired mcp install --client NAME writes this into a client's file. Where the daemon wants a token, add --auth-token-file=FILE to args.",
};

export function CopyAs({ entry, close }) {
  const [kind, setKind] = useState("curl");
  const text = RECIPES[kind](entry);
  return html`
    <${Dialog} title="Copy as" close=${close} wide=${true}>
      <${Segments} label="Copy as" options=${Object.keys(RECIPES).map((name) => [name, name])} chosen=${kind} choose=${setKind} />
      <pre class="recipe" tabindex="0">${text}</pre>
      <p class="note">${NOTES[kind]}</p>
      <footer><button type="button" onClick=${close}>Close</button><${CopyButton} key=${kind} text=${text} className="primary" /></footer>
    <//>`;
}
