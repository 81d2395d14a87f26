package main

import "slices"

// backward is how many uses run back up in the best order of files that is found.
// uses[a][b] are those that file a makes of file b: they run down if a stands above b.
func backward(uses [][]int) int {
	order := sources(uses)
	best := against(uses, order)
	for better := true; better; {
		better = false
		for file := range uses {
			if moved := move(uses, order, file); against(uses, moved) < best {
				order, best, better = moved, against(uses, moved), true
			}
		}
	}
	return best
}

// sources puts first whoever uses others most and is used least, again and again.
func sources(uses [][]int) (order []int) {
	var left []int
	for file := range uses {
		left = append(left, file)
	}
	for len(left) > 0 {
		first := slices.MaxFunc(left, func(a, b int) int { return surplus(uses, left, a) - surplus(uses, left, b) })
		order = append(order, first)
		left = slices.DeleteFunc(left, func(file int) bool { return file == first })
	}
	return order
}

func surplus(uses [][]int, left []int, file int) (n int) {
	for _, other := range left {
		n += uses[file][other] - uses[other][file]
	}
	return n
}

// move puts a file where the fewest uses run back up.
func move(uses [][]int, order []int, file int) []int {
	rest := slices.DeleteFunc(slices.Clone(order), func(other int) bool { return other == file })
	cost := 0 // with the file above all others
	for _, other := range rest {
		cost += uses[other][file]
	}
	best, place := cost, 0
	for i, other := range rest {
		if cost += uses[file][other] - uses[other][file]; cost < best {
			best, place = cost, i+1
		}
	}
	return slices.Insert(rest, place, file)
}

func against(uses [][]int, order []int) (n int) {
	for i, below := range order {
		for _, above := range order[:i] {
			n += uses[below][above]
		}
	}
	return n
}
