package check

import (
	"slices"
	"testing"
	"time"
)

var (
	a = Entry{"ns", "a"}
	b = Entry{"ns", "b"}
)

// good is a history without a fault. Host 0 writes a1 and a2, of which the daemon sends the second alone,
// and deletes b, which it has written. Host 1 writes a3 and, on the other side of a cut, b3. Host 0's a4 loses
// against a5, which host 1 has written later.
func good() *History {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	return &History{
		Writes: []Write{
			{Host: 0, Entry: a, Value: "a1", Seq: 1, Began: at(1), Ended: at(2)},
			{Host: 0, Entry: a, Value: "a2", Seq: 2, Began: at(3), Ended: at(4)},
			{Host: 1, Entry: a, Value: "a3", Seq: 1, Began: at(20), Ended: at(21)},
			{Host: 0, Entry: a, Value: "a4", Seq: 3, Began: at(30), Ended: at(31)},
			{Host: 1, Entry: a, Value: "a5", Seq: 2, Began: at(32), Ended: at(33)},
			{Host: 0, Entry: b, Value: "b1", Seq: 4, Began: at(40), Ended: at(41)},
			{Host: 0, Entry: b, Delete: true, Seq: 5, Began: at(42), Ended: at(43)},
			{Host: 1, Entry: b, Value: "b3", Seq: 3, Began: at(45), Ended: at(46)},
		},
		Reads: []Read{
			{Host: 1, Entry: a, Began: at(0), Ended: at(1)},
			{Host: 0, Entry: a, Found: true, Value: "a1", UpdatedAt: 1001, Began: at(2), Ended: at(5)},
			{Host: 0, Entry: a, Found: true, Value: "a2", UpdatedAt: 1003, Began: at(6), Ended: at(7)},
			{Host: 0, Entry: a, Found: true, Value: "a5", UpdatedAt: 1032, Began: at(50), Ended: at(51)},
			{Host: 0, Entry: b, Began: at(44), Ended: at(45)},
			{Host: 0, Entry: b, Found: true, Value: "b3", UpdatedAt: 1045, Began: at(60), Ended: at(61)},
		},
		Receipts: []map[uint64]Receipt{
			{
				1: {"superseded", 2, 1001}, 2: {"settled", 0, 1003}, 3: {"superseded", 0, 1030},
				4: {"settled", 0, 1040}, 5: {"settled", 0, 1042},
			},
			{1: {"settled", 0, 1020}, 2: {"settled", 0, 1032}, 3: {"settled", 0, 1045}},
		},
		Lost: [][]Lost{
			{{Own: true, Seq: 3, Entry: a, WrittenAt: 1030}},
			{{Entry: b, WrittenAt: 1042}},
		},
		Bucket: map[Entry][]Version{
			a: {
				{Revision: 1, Value: "a2", WrittenAt: 1003, Host: "h0", Seq: 2},
				{Revision: 2, Value: "a3", WrittenAt: 1020, Host: "h1", Seq: 1},
				{Revision: 3, Value: "a5", WrittenAt: 1032, Host: "h1", Seq: 2},
			},
			b: {
				{Revision: 4, Value: "b1", WrittenAt: 1040, Host: "h0", Seq: 4},
				{Revision: 5, Deleted: true, WrittenAt: 1042, Host: "h0", Seq: 5},
				{Revision: 6, Value: "b3", WrittenAt: 1045, Host: "h1", Seq: 3},
			},
		},
		Kept:   8,
		Final:  []map[Entry]State{finalStates(), finalStates()},
		Listed: []map[Entry]State{{a: {"", 1032}, b: {"", 1045}}, {a: {"", 1032}, b: {"", 1045}}},
		Cuts:   []Cut{{From: 1035, To: 1055, Side: map[int]int{0: 0, 1: 1}}},
	}
}

func finalStates() map[Entry]State { return map[Entry]State{a: {"a5", 1032}, b: {"b3", 1045}} }

func TestAGoodHistoryHasNoFault(t *testing.T) {
	for _, f := range Check(good()) {
		t.Error(f)
	}
	h := good()
	// A write without an answer may have taken place, as the latest or not at all.
	h.Writes = append(h.Writes, Write{Host: 1, Entry: b, Value: "b4", Began: 1, Ended: 1 << 62}, Write{Host: 0, Entry: a, Delete: true, Ended: 1 << 62})
	for _, f := range Check(h) {
		t.Error(f)
	}
	h.Bucket[b] = append(h.Bucket[b], Version{Revision: 7, Value: "b4", WrittenAt: 1099, Host: "h1", Seq: 9})
	for i := range h.Final {
		h.Final[i][b], h.Listed[i][b] = State{"b4", 1099}, State{"", 1099}
	}
	h.Bucket[a] = append(h.Bucket[a], Version{Revision: 8, Deleted: true, WrittenAt: 1100, Host: "h0", Seq: 9})
	for _, f := range Check(h) {
		if f.Entry == b {
			t.Error(f)
		}
	}
	// A delete that has found another host's later one is settled by it.
	h = good()
	h.Writes = append(h.Writes, Write{Host: 2, Entry: b, Delete: true, Seq: 7, Began: 41 << 20, Ended: 42 << 20})
	h.Receipts = append(h.Receipts, map[uint64]Receipt{7: {"settled", 0, 1041}})
	for _, f := range Check(h) {
		t.Error(f)
	}
	// A delete without an answer is sent again over another host's later one, with a time behind that.
	h = good()
	h.Writes = append(h.Writes, Write{Host: 0, Entry: b, Delete: true, Seq: 6, Began: 46 << 20, Ended: 47 << 20},
		Write{Host: 1, Entry: b, Delete: true, Seq: 4, Began: 50 << 20, Ended: 51 << 20})
	h.Receipts[0][6], h.Receipts[1][4] = Receipt{"settled", 0, 1046}, Receipt{"settled", 0, 1050}
	h.Bucket[b] = append(h.Bucket[b], Version{Revision: 7, Deleted: true, WrittenAt: 1050, Host: "h1", Seq: 4},
		Version{Revision: 8, Deleted: true, WrittenAt: 1051, Host: "h0", Seq: 6})
	for i := range h.Final {
		delete(h.Final[i], b)
		delete(h.Listed[i], b)
	}
	h.Reads = h.Reads[:5]
	for _, f := range Check(h) {
		t.Error(f)
	}
	// A blind overwrite has a letter at either host.
	for host := range 2 {
		h = good()
		h.Cuts[0].From = 1000
		h.Lost[host] = append(h.Lost[host], Lost{Entry: a, WrittenAt: 1003})
		for _, f := range Check(h) {
			t.Error(f)
		}
	}
	// A bucket that keeps fewer versions has not kept the first.
	h = good()
	h.Kept = 2
	for e := range h.Bucket {
		h.Bucket[e] = h.Bucket[e][1:]
	}
	for _, f := range Check(h) {
		t.Error(f)
	}
}

// Each rule refuses what it is there for.
func TestFaultsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		rule  string
		spoil func(*History)
	}{
		"a receipt is missing":          {RuleReceipt, func(h *History) { delete(h.Receipts[0], 2) }},
		"a write is still pending":      {RulePending, func(h *History) { h.Receipts[1][2] = Receipt{"pending", 0, 1032} }},
		"upstream has refused a write":  {RuleRefused, func(h *History) { h.Receipts[1][2] = Receipt{"dead", 0, 1032} }},
		"a loser cannot be listed":      {RuleSilent, func(h *History) { h.Lost[0] = nil }},
		"what is lost is another write": {RuleSilent, func(h *History) { h.Lost[0][0].Seq = 2 }},
		"a confirmed write is gone":     {RuleLost, func(h *History) { h.Bucket[a] = slices.Delete(h.Bucket[a], 0, 1) }},
		"an entry is gone":              {RuleLost, func(h *History) { delete(h.Bucket, b) }},
		"a confirmed delete is gone": {RuleLost, func(h *History) {
			h.Writes = append(h.Writes, Write{Host: 1, Entry: b, Delete: true, Seq: 7})
			h.Receipts[1][7] = Receipt{"settled", 0, 1044}
		}},
		"a write fell out of a full bucket":     {RuleLost, func(h *History) { h.Kept = 2; h.Bucket[a] = slices.Delete(h.Bucket[a], 1, 2) }},
		"a write was beaten by nobody":          {RuleLost, func(h *History) { h.Receipts[0][3] = Receipt{"superseded", 0, 1033} }},
		"a write gave way to an earlier one":    {RuleLost, func(h *History) { h.Receipts[0][2] = Receipt{"superseded", 1, 1003} }},
		"a write gave way to another entry's":   {RuleLost, func(h *History) { h.Receipts[0][1] = Receipt{"superseded", 4, 1001} }},
		"a write gave way to nobody's":          {RuleLost, func(h *History) { h.Receipts[0][1] = Receipt{"superseded", 7, 1001} }},
		"the bucket has a stranger's value":     {RuleKnown, func(h *History) { h.Bucket[a][0].Value = "x" }},
		"the bucket has a stranger's delete":    {RuleKnown, func(h *History) { h.Bucket[b][1].Seq = 9 }},
		"two hosts have one name":               {RuleKnown, func(h *History) { h.Bucket[a][1].Host = "h0" }},
		"the bucket has another time":           {RuleOneTime, func(h *History) { h.Bucket[a][1].WrittenAt = 1021 }},
		"a host answers another time":           {RuleOneTime, func(h *History) { h.Reads[3].UpdatedAt = 1033 }},
		"an earlier version replaced a later":   {RuleOrder, func(h *History) { l := h.Bucket[a]; l[0], l[1] = l[1], l[0] }},
		"one host's times go back":              {RuleOrder, func(h *History) { h.Receipts[0][1] = Receipt{"superseded", 2, 1004} }},
		"the latest write is not the last":      {RuleFinal, func(h *History) { h.Receipts[0][3] = Receipt{"superseded", 0, 1034} }},
		"a host holds an older value":           {RuleAgree, func(h *History) { h.Final[0][a] = State{"a3", 1020} }},
		"a host lacks an entry":                 {RuleAgree, func(h *History) { delete(h.Final[1], b) }},
		"a host lists an older time":            {RuleAgree, func(h *History) { h.Listed[0][a] = State{"", 1020} }},
		"a host's listing lacks an entry":       {RuleAgree, func(h *History) { delete(h.Listed[0], a) }},
		"a host holds what nobody wrote":        {RuleKnown, func(h *History) { h.Final[0][Entry{"ns", "c"}] = State{"x", 1} }},
		"a blind overwrite has left no letter":  {RuleSilent, func(h *History) { h.Cuts[0].From = 1000 }},
		"a read shows what nobody wrote":        {RuleKnown, func(h *History) { h.Reads[2].Value = "x" }},
		"a read shows what is not written yet":  {RuleKnown, func(h *History) { h.Reads[1].Value, h.Reads[1].UpdatedAt = "a5", 1032 }},
		"a read shows less than its host wrote": {RuleBackward, func(h *History) { h.Reads[2].Value, h.Reads[2].UpdatedAt = "a1", 1001 }},
		"a read shows less than one before":     {RuleBackward, func(h *History) { h.Reads[5] = h.Reads[2]; h.Reads[5].Began, h.Reads[5].Ended = 1<<40, 1<<41 }},
		"a read shows an absence before delete": {RuleBackward, func(h *History) { h.Reads[4].Began, h.Reads[4].Ended = h.Writes[5].Ended+1, h.Writes[5].Ended+2 }},
		"a read shows what was deleted":         {RuleBackward, func(h *History) { h.Reads[5].Value, h.Reads[5].UpdatedAt = "b1", 1040 }},
	} {
		h := good()
		c.spoil(h)
		if !slices.ContainsFunc(Check(h), func(f Fault) bool { return f.Rule == c.rule }) {
			t.Errorf("%s: %v, want a fault of the rule %q", name, Check(h), c.rule)
		}
	}
}
