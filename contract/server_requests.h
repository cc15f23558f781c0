// The calls about servers. service.proto and cluster.proto explain their
// fields.

#ifndef TENSORKV_CONTRACT_SERVER_REQUESTS_H_
#define TENSORKV_CONTRACT_SERVER_REQUESTS_H_

#include "tensorkv/v1/cluster.pb.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

using ServerStatus = v1::DescribeServerResponse;

using DescribeServerRequest = v1::DescribeServerRequest;
using DescribeServerReply = v1::DescribeServerResponse;

using DescribeClusterRequest = v1::DescribeClusterRequest;
using DescribeClusterReply = v1::DescribeClusterResponse;

using ResizeClusterRequest = v1::ResizeClusterRequest;
using ResizeClusterReply = v1::ResizeClusterResponse;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_SERVER_REQUESTS_H_
