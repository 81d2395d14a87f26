// Command bomcheck compares SBOMs with CycloneDX's own schema, and reads them with CycloneDX's own
// library. The schemas come with that library: go.mod pins both.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const library = "github.com/CycloneDX/cyclonedx-go"

// toolsDir is where go.mod is. The linker writes it: see the Makefile.
var toolsDir string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bomcheck:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		return errors.New("name the SBOMs")
	}
	schema, err := readSchema()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := check(schema, file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// readSchema compiles the schema of CycloneDX 1.6. The schemas that it refers to are beside it.
func readSchema() (*jsonschema.Schema, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", library)
	list.Dir = toolsDir
	printed, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m %s: %w", library, err)
	}
	dir := filepath.Join(strings.TrimSpace(string(printed)), "schema")
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, name := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schemax.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var about struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal(text, &about); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := compiler.AddResource(about.ID, document); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
}

func check(schema *jsonschema.Schema, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return err
	}
	var b cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
		return err
	}
	if b.Components == nil || b.Metadata == nil || b.Metadata.Component == nil {
		return errors.New("it names no program or no components")
	}
	return nil
}
