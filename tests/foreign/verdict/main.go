// What envoyproxy/ratelimit's own loader says of files: for each path on standard input one line of JSON,
// {"file", "error"} or {"file", "dump"}. Its texts name a file by the path that was given.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
)

type verdict struct {
	File  string   `json:"file"`
	Error string   `json:"error,omitempty"`
	Dump  []string `json:"dump,omitempty"`
}

func load(path string) (said verdict) {
	said.File = filepath.Base(path)
	defer func() {
		if problem := recover(); problem != nil {
			said.Error = fmt.Sprint(problem)
		}
	}()
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.NewSettings())
	loaded := config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{{Name: said.File,
		ConfigYaml: config.ConfigFileContentToYaml(said.File, string(content))}}, manager, false)
	said.Dump = strings.Split(strings.TrimSuffix(loaded.Dump(), "\n"), "\n")
	sort.Strings(said.Dump)
	return said
}

func main() {
	paths := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for paths.Scan() {
		if err := out.Encode(load(paths.Text())); err != nil {
			panic(err)
		}
	}
}
