"""Manifests that are wrong in one place each: tools/manifests has to find it, and to name it."""
import shutil
import subprocess
import tempfile
from pathlib import Path

# The file, what stands there, what is put in its place (at its first place), and what the checker says.
BROKEN = [
    ("Dockerfile", "USER 65532:65532", "USER 0:0", "runs as root"),
    ("Dockerfile", 'CMD ["botwired", "status"', 'CMD botwired status #', "wants a shell"),
    ("compose.yaml", "read_only: true", "read_onyl: true", "read_onyl"),
    ("compose.yaml", "      retries: 3\n", "", "wants retries"),
    ("compose.yaml", "    cap_drop: [ALL]\n", "", "cap_drop"),
    ("kubernetes/deployment.yaml", "exec: {command: [botwired, status, --ready]}", "exce: {}", 'unknown field "exce"'),
    ("kubernetes/deployment.yaml", "exec: {command: [botwired, status, --ready]}", "httpGet: {path: /, port: 2689}", "no command"),
    ("kubernetes/deployment.yaml", "            readOnlyRootFilesystem: true\n", "", "may write to its root"),
    ("kubernetes/deployment.yaml", "        runAsUser: 65532\n", "", "names no user"),
    ("kubernetes/deployment.yaml", "          restartPolicy: Always", "         ", "no sidecar"),
    ("kubernetes/deployment.yaml", "name: memory, mountPath", "name: memroy, mountPath", "no volume"),
    ("kubernetes/shared.yaml", "selector: {app.kubernetes.io/name: botwired}", "selector: {app: botwired}", "service botwired selects no pod"),
    ("kubernetes/shared.yaml", "targetPort: http}", "targetPort: htp}", "no port htp"),
    ("kubernetes/shared.yaml", "matchLabels: {botwired: client}", "matchLabels: {botwired: clint}", "selects no pod"),
    ("kubernetes/shared.yaml", ", defaultMode: 0440", "", "no defaultMode"),
    ("kubernetes/sandbox.yaml", "agents.x-k8s.io/v1beta1", "agents.x-k8s.io/v1beta2", "nobody checks this kind"),
    ("kubernetes/sandbox.yaml", "  podTemplate:", "  template:", 'unknown field "template"'),
    ("kubernetes/sandbox.yaml", "[ReadWriteOncePod]", "[ReadWriteOnce]", "lets several pods in"),
]


def overlooked(checker, deploy):
    """What of BROKEN the checker does not find."""
    wrong = []
    for file, good, bad, finding in BROKEN:
        with tempfile.TemporaryDirectory(prefix="botwired-broken-") as directory:
            copy = Path(directory) / "deploy"
            shutil.copytree(deploy, copy, ignore=shutil.ignore_patterns("secrets"))
            text = (copy / file).read_text()
            (copy / file).write_text(text.replace(good, bad, 1))
            done = subprocess.run([checker, copy], capture_output=True, text=True, timeout=60)
            if good not in text or done.returncode != 1 or finding not in done.stderr:
                wrong.append(f"{file} with {bad!r} for {good!r}: exit code {done.returncode}, {done.stderr[:300]!r}, expected {finding!r}")
    return wrong
