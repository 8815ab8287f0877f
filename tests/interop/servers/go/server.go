// A server on grpc-go, which answers in the encoding of the request.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
)

type raw struct{}

func (raw) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (raw) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (raw) Name() string { return "proto" }

func main() {
	answer, err := hex.DecodeString(os.Args[1])
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	handle := func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		lock.Lock()
		fmt.Println(hex.EncodeToString(message))
		lock.Unlock()
		return stream.SendMsg(&answer)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(handle))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}
