// CPU time of franz-go's cooperative-sticky, through its public balancer.
//
// The argument is a file of benchmarks/group_file.py. Each line of standard input, {"do": "assign", "calls": 3}, is
// answered with the CPU time of that many calls in a row, {"cpu_ns": 1234}: user and system time of the process,
// including its garbage collector. "assign" balances decoded members; "lead" goes from the bytes of the members'
// JoinGroup requests to the bytes of their assignments.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"runtime"
	"sort"
	"syscall"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type group struct {
	Topics map[string]struct {
		Partitions   int32      `json:"partitions"`
		ReplicaRacks [][]string `json:"replica_racks"`
	} `json:"topics"`
	Members []struct {
		ID          string `json:"id"`
		Cooperative []byte `json:"cooperative"`
	} `json:"members"`
}

type question struct {
	Do    string `json:"do"`
	Calls int    `json:"calls"`
}

type contestant struct {
	members    []kmsg.JoinGroupResponseMember
	partitions map[string]int32
	racks      map[string][]string // of each partition's leader, or nil
	decoded    *kgo.ConsumerBalancer
}

func main() {
	c := read(os.Args[1])
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q question
		must(json.Unmarshal(lines.Bytes(), &q))
		if q.Do == "assign" && c.decoded == nil {
			c.decoded = c.balancer()
		}
		runtime.GC()
		start := cpu()
		for range q.Calls {
			switch q.Do {
			case "assign":
				balance(c.decoded, c.partitions)
			case "lead":
				balance(c.balancer(), c.partitions).IntoSyncAssignment()
			default:
				log.Fatalf("cannot do %q", q.Do)
			}
		}
		must(answers.Encode(map[string]int64{"cpu_ns": cpu() - start}))
	}
	must(lines.Err())
}

func read(path string) *contestant {
	content, err := os.ReadFile(path)
	must(err)
	var g group
	must(json.Unmarshal(content, &g))
	c := &contestant{partitions: make(map[string]int32, len(g.Topics))}
	for name, topic := range g.Topics {
		c.partitions[name] = topic.Partitions
		if topic.ReplicaRacks == nil {
			continue
		}
		if c.racks == nil {
			c.racks = make(map[string][]string, len(g.Topics))
		}
		leaders := make([]string, topic.Partitions)
		for partition, racks := range topic.ReplicaRacks {
			leaders[partition] = racks[0]
		}
		c.racks[name] = leaders
	}
	for _, member := range g.Members {
		joined := kmsg.NewJoinGroupResponseMember()
		joined.MemberID = member.ID
		joined.ProtocolMetadata = member.Cooperative
		c.members = append(c.members, joined)
	}
	// The client sorts the members before it calls the balancer.
	sort.Slice(c.members, func(i, j int) bool { return c.members[i].MemberID < c.members[j].MemberID })
	return c
}

// balancer decodes the members, as the leading client does.
func (c *contestant) balancer() *kgo.ConsumerBalancer {
	decoded, _, err := kgo.CooperativeStickyBalancer().MemberBalancer(c.members)
	must(err)
	balancer := decoded.(*kgo.ConsumerBalancer)
	if c.racks != nil {
		// kgo.BalanceRacks() sets these fields in a client; there is no public way to set them without a client.
		set(balancer, "partitionRacks", c.racks)
		set(balancer, "balanceRacks", true)
	}
	return balancer
}

func set(balancer *kgo.ConsumerBalancer, field string, value any) {
	f := reflect.ValueOf(balancer).Elem().FieldByName(field)
	if !f.IsValid() {
		log.Fatalf("this release of franz-go has no field %q", field)
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func balance(balancer *kgo.ConsumerBalancer, partitions map[string]int32) kgo.IntoSyncAssignment {
	plan, err := balancer.BalanceOrError(partitions)
	must(err)
	return plan
}

// cpu is the CPU time of the process in nanoseconds.
func cpu() int64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func must(err error) {
	if err != nil {
		log.Fatal(fmt.Errorf("franzgo: %w", err))
	}
}
