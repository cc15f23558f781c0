// A client of generated stubs alone: stores a tensor, pushes another over it,
// and prints what the server has then. docs/protocol.md says how to build it.
//
//	client [HOST:PORT]
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	pb "tensorkv.dev/tensorkv/v1"
)

func toTensor(elements []float32, shape ...int64) *pb.Tensor {
	var data bytes.Buffer
	binary.Write(&data, binary.LittleEndian, elements)
	return &pb.Tensor{
		Dtype: pb.DType_DTYPE_F32, Shape: shape, Location: &pb.Tensor_Data{Data: data.Bytes()},
	}
}

// REQUIRES: the tensor is of f32.
func elementsOf(tensor *pb.Tensor) []float32 {
	elements := make([]float32, len(tensor.GetData())/4)
	binary.Read(bytes.NewReader(tensor.GetData()), binary.LittleEndian, elements)
	return elements
}

func pushAndPull(ctx context.Context, kv pb.DataClient, key string) (*pb.Value, error) {
	init := &pb.InitEntry{Key: key, Tensor: toTensor(make([]float32, 6), 2, 3)}
	if _, err := kv.Init(ctx, &pb.InitRequest{Entries: []*pb.InitEntry{init}}); err != nil {
		return nil, err
	}
	push := &pb.PushEntry{Key: key, Tensor: toTensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3)}
	if _, err := kv.Push(ctx, &pb.PushRequest{Entries: []*pb.PushEntry{push}}); err != nil {
		return nil, err
	}
	reply, err := kv.Pull(ctx, &pb.PullRequest{Entries: []*pb.PullEntry{{Key: key}}})
	if err != nil {
		return nil, err
	}
	return reply.Values[0], nil
}

func main() {
	address := "127.0.0.1:7363"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	// Later versions of gRPC than Debian 12's call these NewClient and
	// WithTransportCredentials(insecure.NewCredentials()).
	channel, err := grpc.Dial(address, grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	value, err := pushAndPull(ctx, pb.NewDataClient(channel), "go")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("version %d: %v\n", value.Version, elementsOf(value.Tensor))
}
