// The assignments of franz-go's sticky balancers for a group.
//
// Arguments are the names of balancers: sticky, cooperative-sticky. Each line of standard input is a group in the JSON
// form of kafka_assignors.group_json; each is answered with a line
// {"sticky": {"assignment": {member: {topic: [partition, ...]}}}, ...}, or {"error": ...} instead of an assignment
// where the balancer fails. The cooperative balancer's answer is that of one round.
//
// Members join with the metadata of a franz-go client. The balancer knows one rack of each partition, that of its
// leader: here the first replica's.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"sort"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type group struct {
	Topics map[string]struct {
		Partitions   int32      `json:"partitions"`
		ReplicaRacks [][]string `json:"replica_racks"`
	} `json:"topics"`
	Members []member `json:"members"`
}

type member struct {
	ID         string             `json:"id"`
	InstanceID *string            `json:"instance_id"`
	Rack       *string            `json:"rack"`
	Topics     []string           `json:"topics"`
	Owned      map[string][]int32 `json:"owned"`
	Generation *int32             `json:"generation"`
}

type assignment map[string]map[string][]int32

func main() {
	balancers := map[string]kgo.GroupBalancer{
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var g group
		must(json.Unmarshal(lines.Bytes(), &g))
		answer := make(map[string]any)
		for _, name := range os.Args[1:] {
			if given, err := assign(balancers[name], g); err != nil {
				answer[name] = map[string]string{"error": err.Error()}
			} else {
				answer[name] = map[string]assignment{"assignment": given}
			}
		}
		must(answers.Encode(answer))
	}
	must(lines.Err())
}

func assign(balancer kgo.GroupBalancer, g group) (given assignment, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	members := make([]kmsg.JoinGroupResponseMember, 0, len(g.Members))
	for _, m := range g.Members {
		joined := kmsg.NewJoinGroupResponseMember()
		joined.MemberID, joined.InstanceID = m.ID, m.InstanceID
		joined.ProtocolMetadata = m.metadata(balancer)
		members = append(members, joined)
	}
	// The client sorts the members before it calls the balancer.
	sort.Slice(members, func(i, j int) bool { return members[i].MemberID < members[j].MemberID })
	decoded, subscribed, err := balancer.MemberBalancer(members)
	if err != nil {
		return nil, err
	}
	partitions := make(map[string]int32)
	racks := make(map[string][]string)
	for name := range subscribed {
		topic, known := g.Topics[name]
		if !known {
			continue
		}
		partitions[name] = topic.Partitions
		if topic.ReplicaRacks == nil {
			continue
		}
		leaders := make([]string, topic.Partitions)
		for partition, replicas := range topic.ReplicaRacks {
			if len(replicas) > 0 {
				leaders[partition] = replicas[0]
			}
		}
		racks[name] = leaders
	}
	consumers := decoded.(*kgo.ConsumerBalancer)
	if len(racks) > 0 {
		// kgo.BalanceRacks() sets these fields in a client; there is no public way to set them without a client.
		set(consumers, "partitionRacks", racks)
		set(consumers, "balanceRacks", true)
	}
	plan, err := consumers.BalanceOrError(partitions)
	if err != nil {
		return nil, err
	}
	given = make(assignment)
	for _, to := range plan.IntoSyncAssignment() {
		var got kmsg.ConsumerMemberAssignment
		if err := got.ReadFrom(to.MemberAssignment); err != nil {
			return nil, err
		}
		given[to.MemberID] = make(map[string][]int32)
		for _, topic := range got.Topics {
			given[to.MemberID][topic.Topic] = topic.Partitions
		}
	}
	return given, nil
}

// metadata is the JoinGroup metadata of a franz-go client with this state.
func (m member) metadata(balancer kgo.GroupBalancer) []byte {
	generation := int32(-1)
	if m.Generation != nil {
		generation = *m.Generation
	}
	joined := balancer.JoinGroupMetadata(m.Topics, m.Owned, generation)
	if m.Rack == nil {
		return joined
	}
	var metadata kmsg.ConsumerMemberMetadata
	must(metadata.ReadFrom(joined))
	metadata.Rack = m.Rack
	return metadata.AppendTo(nil)
}

func set(balancer *kgo.ConsumerBalancer, field string, value any) {
	f := reflect.ValueOf(balancer).Elem().FieldByName(field)
	if !f.IsValid() {
		log.Fatalf("this release of franz-go has no field %q", field)
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func must(err error) {
	if err != nil {
		log.Fatal(fmt.Errorf("franzgo: %w", err))
	}
}
