// A gRPC client made of others' code alone: grpc-go, and the code that Envoy's project generates from its own protocol files.
// Reads commands from standard input and writes what came of them to standard output, a line of JSON each:
//
//	{"id": 1, "method": "Check", "request": {…}, "timeoutMs": 1000}
//	{"id": 2, "cancel": 1}
//
// Commands run side by side. Requests and responses are in the JSON form of Protocol Buffers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type command struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	Request   json.RawMessage `json:"request"`
	TimeoutMs int             `json:"timeoutMs"`
	Cancel    int             `json:"cancel"`
}

type event struct {
	ID      int             `json:"id"`
	Message json.RawMessage `json:"message,omitempty"`
	// Set when the call has ended.
	Code    *uint32 `json:"code,omitempty"`
	Details string  `json:"details,omitempty"`
}

type client struct {
	connection *grpc.ClientConn
	mutex      sync.Mutex
	output     *json.Encoder
	cancels    map[int]context.CancelFunc
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	c := &client{connection: connection, output: json.NewEncoder(os.Stdout), cancels: map[int]context.CancelFunc{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var next command
		if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
			panic(err)
		}
		c.start(next)
	}
}

func (c *client) start(next command) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if next.Cancel != 0 {
		c.cancels[next.Cancel]()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if next.TimeoutMs != 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(next.TimeoutMs)*time.Millisecond)
	}
	c.cancels[next.ID] = cancel
	go func() {
		err := c.call(ctx, next)
		code := uint32(status.Code(err))
		c.write(event{ID: next.ID, Code: &code, Details: status.Convert(err).Message()})
		cancel()
	}()
}

func (c *client) call(ctx context.Context, next command) error {
	var response proto.Message
	var err error
	switch next.Method {
	case "Check":
		request := read(next.Request, &auth.CheckRequest{})
		response, err = auth.NewAuthorizationClient(c.connection).Check(ctx, request)
	case "ShouldRateLimit":
		request := read(next.Request, &ratelimit.RateLimitRequest{})
		response, err = ratelimit.NewRateLimitServiceClient(c.connection).ShouldRateLimit(ctx, request)
	case "HealthCheck":
		request := read(next.Request, &health.HealthCheckRequest{})
		response, err = health.NewHealthClient(c.connection).Check(ctx, request)
	case "HealthWatch":
		return c.watch(ctx, next)
	case "Describe":
		c.describe(next.ID)
		return nil
	default:
		panic("unknown method " + next.Method)
	}
	if err == nil {
		c.show(next.ID, response)
	}
	return err
}

func (c *client) watch(ctx context.Context, next command) error {
	stream, err := health.NewHealthClient(c.connection).Watch(ctx, read(next.Request, &health.HealthCheckRequest{}))
	for err == nil {
		var response *health.HealthCheckResponse
		response, err = stream.Recv()
		if err == nil {
			c.show(next.ID, response)
		}
	}
	return err
}

// The messages of these services, as they are published: by name, each field's number and kind.
func (c *client) describe(id int) {
	messages := map[string]map[string]string{}
	add(messages, (&auth.CheckRequest{}).ProtoReflect().Descriptor())
	add(messages, (&auth.CheckResponse{}).ProtoReflect().Descriptor())
	add(messages, (&ratelimit.RateLimitRequest{}).ProtoReflect().Descriptor())
	add(messages, (&ratelimit.RateLimitResponse{}).ProtoReflect().Descriptor())
	add(messages, (&health.HealthCheckRequest{}).ProtoReflect().Descriptor())
	add(messages, (&health.HealthCheckResponse{}).ProtoReflect().Descriptor())
	text, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	c.write(event{ID: id, Message: text})
}

func add(messages map[string]map[string]string, message protoreflect.MessageDescriptor) {
	name := strings.TrimPrefix(string(message.FullName()), string(message.ParentFile().Package())+".")
	if messages[name] != nil {
		return
	}
	messages[name] = map[string]string{}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		messages[name][string(field.Name())] = fmt.Sprintf("%d %v %v", field.Number(), field.Cardinality(), field.Kind())
		if field.Message() != nil {
			add(messages, field.Message())
		}
	}
}

func read[Message proto.Message](text json.RawMessage, message Message) Message {
	if err := protojson.Unmarshal(text, message); err != nil {
		panic(err)
	}
	return message
}

func (c *client) show(id int, response proto.Message) {
	text, err := protojson.Marshal(response)
	if err != nil {
		panic(err)
	}
	c.write(event{ID: id, Message: text})
}

func (c *client) write(next event) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.output.Encode(next); err != nil {
		panic(err)
	}
}
