package upstream

// taskHeap is ordered by due time, then by age.
type taskHeap []*task

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, k int) bool {
	if h[i].due == h[k].due {
		return h[i].seq < h[k].seq
	}
	return h[i].due < h[k].due
}

func (h taskHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = int32(i), int32(k)
}

func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = int32(len(*h))
	*h = append(*h, t)
}

func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

// spaceHeap is ordered by ready time, then by turns.
type spaceHeap []*space

func (h spaceHeap) Len() int { return len(h) }

func (h spaceHeap) Less(i, k int) bool {
	if h[i].readyAt == h[k].readyAt {
		return h[i].served < h[k].served
	}
	return h[i].readyAt < h[k].readyAt
}

func (h spaceHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *spaceHeap) Push(x any) {
	sp := x.(*space)
	sp.index = len(*h)
	*h = append(*h, sp)
}

func (h *spaceHeap) Pop() any {
	old := *h
	sp := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	sp.index = -1
	return sp
}
