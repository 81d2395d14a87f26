package main

// calls is how often a process made a system call, and how often that failed.
type calls struct{ all, failed int }

// byTheClock are the system calls that Go's runtime and the daemon make as time goes by, whether requests
// come or not: the runtime looks around, interrupts goroutines and starts threads, and the daemon looks at
// the free space of its disk. Under strace, a request takes many times as long as without it.
var byTheClock = map[string]bool{
	"nanosleep": true, "clock_nanosleep": true, "sched_yield": true, "restart_syscall": true, "tgkill": true, "getpid": true,
	"gettid": true, "rt_sigreturn": true, "rt_sigprocmask": true, "sigaltstack": true, "clone": true, "clone3": true,
	"rseq": true, "set_robust_list": true, "sched_getaffinity": true, "mmap": true, "munmap": true, "madvise": true,
	"statfs": true,
}

// columnOf has the system calls that have a column.
var columnOf = map[string]int{
	"read": reads, "recvfrom": reads, "recvmsg": reads,
	"write": writes, "writev": writes, "sendto": writes, "sendmsg": writes,
	"fsync": fsyncs, "fdatasync": fsyncs, "sync_file_range": fsyncs,
	"epoll_pwait": waits, "epoll_wait": waits, "epoll_pwait2": waits,
	"futex": futexes,
}

// addCalls adds the system calls of some requests to what one costs.
func (c *counts) addCalls(counted map[string]calls, requests int) {
	for name, n := range counted {
		of, named := columnOf[name]
		if !named {
			of = others
		}
		switch {
		case byTheClock[name]:
		case of == reads:
			c[reads] += float64(n.all-n.failed) / float64(requests)
			c[readsInVain] += float64(n.failed) / float64(requests)
		default:
			c[of] += float64(n.all) / float64(requests)
		}
	}
}
