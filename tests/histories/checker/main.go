// Checks recorded histories for per-table linearizability of (commit, load) with porcupine.
//
// Reads one JSON object a line: what a client asked, when, and what it was told. Prints one line a table; exits 1 when
// a history has no order in which every answer is right, 2 when it could not be decided in time.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client  int    `json:"client"`
	Table   string `json:"table"`
	Op      string `json:"op"` // commit, load
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`  // 0: no answer
	Version int    `json:"version"` // 0: the next one
	Txn     string `json:"txn"`
	Result  string `json:"result"` // ok, conflict, unknown
	Got     int    `json:"got"`    // version the transaction became, or latest
	Last    string `json:"last"`   // transaction of the latest version, for a load; empty when it was not told
}

// A table is the list of its transactions. States are shared, never changed in place.
type state []string

func (s state) has(txn string) bool {
	for _, one := range s {
		if one == txn {
			return true
		}
	}
	return false
}

func (s state) with(txn string) state {
	return append(s[:len(s):len(s)], txn)
}

func commit(s state, op operation) []interface{} {
	next := op.Version == 0 || op.Version == len(s)+1
	switch op.Result {
	case "ok":
		if op.Got >= 1 && op.Got <= len(s) && s[op.Got-1] == op.Txn {
			return []interface{}{s} // a replay
		}
		if next && op.Got == len(s)+1 && !s.has(op.Txn) {
			return []interface{}{s.with(op.Txn)}
		}
	case "conflict":
		if op.Got == len(s) && op.Version <= len(s) && !s.has(op.Txn) {
			return []interface{}{s}
		}
	case "unknown":
		if next && !s.has(op.Txn) {
			return []interface{}{s, s.with(op.Txn)}
		}
		return []interface{}{s}
	}
	return nil
}

func load(s state, op operation) []interface{} {
	if op.Result == "unknown" || (op.Got == len(s) && (op.Got == 0 || op.Last == "" || op.Last == s[op.Got-1])) {
		return []interface{}{s}
	}
	return nil
}

var table = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{state{}} },
	Step: func(s, input, _ interface{}) []interface{} {
		op := input.(operation)
		if op.Op == "load" {
			return load(s.(state), op)
		}
		return commit(s.(state), op)
	},
	Equal: func(a, b interface{}) bool {
		left, right := a.(state), b.(state)
		if len(left) != len(right) {
			return false
		}
		for i := range left {
			if left[i] != right[i] {
				return false
			}
		}
		return true
	},
}

func main() {
	timeout := flag.Duration("timeout", 60*time.Second, "how long to try for one table")
	flag.Parse()
	histories := map[string][]porcupine.Operation{}
	var end int64
	var all []operation
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		end = max(end, op.Call, op.Return)
		all = append(all, op)
	}
	for i, op := range all {
		returned := op.Return
		if op.Result == "unknown" {
			returned = end + int64(i) + 1 // it may still happen after everything else
		}
		histories[op.Table] = append(histories[op.Table], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: nil, Return: returned,
		})
	}
	names := make([]string, 0, len(histories))
	for name := range histories {
		names = append(names, name)
	}
	sort.Strings(names)
	status := 0
	model := table.ToModel()
	for _, name := range names {
		result := porcupine.CheckOperationsTimeout(model, histories[name], *timeout)
		fmt.Printf("%s %s %d operations\n", result, name, len(histories[name]))
		if result == porcupine.Illegal {
			status = 1
		} else if result == porcupine.Unknown && status == 0 {
			status = 2
		}
	}
	os.Exit(status)
}
