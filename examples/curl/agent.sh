#!/bin/sh
# An agent's memory with nothing but curl and jq.
#
#     sh agent.sh "Remember: the keys are under the mat"
#     sh agent.sh "What do you remember?"
#
# Each fact has a key of its own: the time, and the process. So of several agents at once, none overwrites another's.
set -eu
memory=${BOTWIRE_URL:-http://127.0.0.1:2689}/memory/curl-agent

# A daemon that restarts goes unnoticed: a PUT may be sent twice. (With --fail, curl tries a 404 again, too.)
ask() { curl --silent --show-error --fail --retry 10 --retry-delay 1 --retry-connrefused --retry-all-errors "$@"; }

keys() { ask "$memory?limit=1000" | jq -r '.keys[].key' | sort; }

remember() {
	key=fact-$(jq -n 'now * 1000000 | floor')-$$
	jq -n --arg value "$1" '{$value}' |
		ask -X PUT -H 'Content-Type: application/json' --data-binary @- --output /dev/null "$memory/$key"
	echo "I will remember that."
}

recall() {
	for key in $(keys); do ask "$memory/$key"; done | jq -rs '"I remember: " + (map(.value) | join("; "))'
}

for message; do
	case $message in
	"Remember: "*) remember "${message#Remember: }" ;;
	*) recall ;;
	esac
done
