// Shows a server in a browser.

#ifndef TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_
#define TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "contract/requests.h"
#include "service/metrics/http_endpoint.h"
#include "service/store/namespace_summary.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// StatusSources holds what the page is about. All outlive it and are
// thread-safe. The store counts no calls of clients.
struct StatusSources {
  TensorStore* store = nullptr;
  NamespaceAdmin* namespaces = nullptr;
  const NamespaceSummaries* summaries = nullptr;
  std::function<ServerStatus()> server;
  std::function<DescribeClusterReply()> cluster;
  // Returns how many of its partitions are to be another server's.
  std::function<double()> partitions_to_move;
  // Returns OK if it takes calls, else why not.
  std::function<absl::Status()> readiness;
  // Bytes of tensors that calls have brought, and replies taken.
  std::function<double()> received_bytes;
  std::function<double()> sent_bytes;
};

// The pages, by path:
//
//   /              the page for people, which reads the last one again and
//                  again
//   /status.css, /status.js
//   /status.json   the server, the servers of its cluster, and a page of its
//                  namespaces in order of their names, those after `after`
//   /status.json?namespace=N   a namespace with its workers, open rounds and
//                  whom these wait for, and a page of its keys in order of
//                  their names: those with `prefix`, after `after`
//
// None changes anything, or answers with much more than 1 MiB: where there is
// another page of the list, `next` is what to give as `after`; of workers the
// slowest are there, of open rounds the first.
std::map<std::string, HttpPage, std::less<>> StatusPages(StatusSources sources);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_
