// Shows a server in a browser.

#ifndef TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_
#define TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_

#include <functional>
#include <map>
#include <string>

#include "service/metrics/http_endpoint.h"
#include "service/rpc/handlers.h"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// Returns the pages, by path:
//
//   /              the page for people, which reads the others again and again
//   /status.css, /status.js
//   /status/DescribeServer, /status/DescribeCluster, /status/ListNamespaces,
//   /status/DescribeNamespace, /status/List
//                  the replies to these calls, as Protocol Buffers writes
//                  messages in JSON, with all fields by their names in proto/;
//                  the fields of the query are those of the request
//   /status/Steps?namespace=N
//                  what the newest steps were, as DescribeSteps tells, without
//                  the ranks that are too many to be shown
//   /status/OpenRounds?namespace=N
//                  the namespace's open rounds of the lowest steps, with the
//                  first of the ranks that each waits for
//
// They make the calls without a caller, change nothing, and answer with no more
// than some megabytes. What `dependencies` names, and `summaries`, outlives the
// pages and is thread-safe.
std::map<std::string, HttpPage, std::less<>> StatusPages(
    const HandlerDependencies& dependencies,
    const NamespaceSummaries* summaries);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_STATUS_PAGE_H_
