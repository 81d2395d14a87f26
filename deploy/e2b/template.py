"""A template for E2B sandboxes with botwired inside, for docs/sandboxes.md.

    pip install e2b
    CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -o bin/botwired ./cmd/botwired   # or a release's binary
    E2B_API_KEY=e2b_... python deploy/e2b/template.py

The template starts no daemon. E2B keeps the processes of a template in a snapshot and gives them to every sandbox:
all sandboxes would be clones of one daemon, with one data directory and with the settings of the build. So each
sandbox starts its own, by `botwired run -- COMMAND`, and its data directory is empty until then.
"""
import sys
from pathlib import Path

from e2b import Template

ROOT = Path(__file__).resolve().parent.parent.parent

template = (
    Template(file_context_path=ROOT)
    .from_python_image("3.13-slim")
    .pip_install(["botwire==0.2.1"])
    .copy("bin/botwired", "/usr/local/bin/botwired", user="root", mode=0o755)
    .copy("deploy/agent/agent.py", "/home/user/agent.py")
    .set_envs({"BOTWIRED_DATA_DIR": "/home/user/.local/state/botwired"})
    .set_ready_cmd("botwired version")
)

if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        print(Template.to_json(template))
    else:
        built = Template.build(template, "botwired", cpu_count=2, memory_mb=1024)
        print(built.name)
