package config

import "testing"

func TestPlacesOfThePlatforms(t *testing.T) {
	for _, test := range []struct {
		goos          string
		env           map[string]string
		config, state string
	}{
		{"linux", map[string]string{"HOME": "/h"}, "/h/.config/botwired/config.yaml", "/h/.local/state/botwired"},
		{"linux", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/botwired/config.yaml", "/s/botwired"},
		{"linux", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s"}, "/h/.config/botwired/config.yaml", "/h/.local/state/botwired"},
		{"linux", nil, "", ""},
		{"linux", map[string]string{"STATE_DIRECTORY": "/var/lib/botwired", "CONFIGURATION_DIRECTORY": "/etc/botwired/"}, "/etc/botwired/config.yaml", "/var/lib/botwired"},
		{"linux", map[string]string{"HOME": "/h", "STATE_DIRECTORY": "/var/lib/a:/var/lib/b/botwired"}, "/h/.config/botwired/config.yaml", "/var/lib/b/botwired"},
		{"linux", map[string]string{"STATE_DIRECTORY": "/var/lib/agent", "CONFIGURATION_DIRECTORY": "/etc/agent"}, "/etc/agent/botwired/config.yaml", "/var/lib/agent/botwired"},
		{"linux", map[string]string{"HOME": "/h", "STATE_DIRECTORY": "state", "CONFIGURATION_DIRECTORY": "botwired"}, "/h/.config/botwired/config.yaml", "/h/.local/state/botwired"},
		{"darwin", map[string]string{"HOME": "/h", "STATE_DIRECTORY": "/var/lib/botwired"}, "/h/Library/Application Support/botwired/config.yaml", "/h/Library/Application Support/botwired"},
		{"darwin", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/h/Library/Application Support/botwired/config.yaml", "/h/Library/Application Support/botwired"},
		{"windows", map[string]string{"AppData": "/roaming", "LocalAppData": "/local"}, "/roaming/botwired/config.yaml", "/local/botwired"},
		{"windows", nil, "", ""},
	} {
		p := places{goos: test.goos, getenv: func(name string) string { return test.env[name] }}
		if got := p.configFile(); got != test.config {
			t.Errorf("%s %v: configuration file %q, want %q", test.goos, test.env, got, test.config)
		}
		if got := p.stateDir(); got != test.state {
			t.Errorf("%s %v: state directory %q, want %q", test.goos, test.env, got, test.state)
		}
	}
}

func TestWindowsVariablesFoldCase(t *testing.T) {
	env := newEnvironment([]string{"LOCALAPPDATA=x", "botwired_listen=y"}, "windows")
	if env.get("LocalAppData") != "x" || env.values["BOTWIRED_LISTEN"] != "y" {
		t.Errorf("got %+v", env)
	}
}
