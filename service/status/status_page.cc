#include "service/status/status_page.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "service/status/page_files.h"
#include "service/status/status_json.h"

namespace tensorkv {
namespace {

using Json = nlohmann::ordered_json;

// With names of 1 KiB and rules of 256 bytes, 1 MiB holds as many and the rest.
constexpr uint32_t kKeysPerPage = 300;
constexpr size_t kNamespacesPerPage = 250;

struct Query {
  std::optional<std::string> name_space;
  std::string prefix;
  std::string after;
};

absl::StatusOr<Query> ParseQuery(const HttpQuery& fields) {
  Query query;
  for (const auto& [name, value] : fields) {
    if (name == "namespace") {
      query.name_space = value;
    } else if (name == "prefix") {
      query.prefix = value;
    } else if (name == "after") {
      query.after = value;
    } else {
      return absl::InvalidArgumentError(
          "query: expected namespace, prefix and after alone");
    }
  }
  return query;
}

// For a short time, and without a caller.
CallContext ContextOfPage() { return {.timeout = absl::Seconds(10)}; }

absl::StatusOr<Json> ServerJson(const StatusSources& sources,
                                const std::string& after) {
  Json json = {{"server", JsonOf(sources.server())}};
  Json& server = json["server"];
  const absl::Status readiness = sources.readiness();
  server["ready"] = readiness.ok();
  server["why_not_ready"] = std::string(readiness.message());
  server["received_bytes"] = sources.received_bytes();
  server["sent_bytes"] = sources.sent_bytes();
  json["cluster"] = JsonOf(sources.cluster());
  if (!json["cluster"].is_null()) {
    json["cluster"]["partitions_to_move"] = sources.partitions_to_move();
  }
  ASSIGN_OR_RETURN(
      const std::vector<NamespaceStatus> namespaces,
      sources.namespaces->ListNamespaces(
          after, kNamespacesPerPage, [](absl::string_view) { return true; },
          ContextOfPage()));
  json["namespaces"] = Json::array();
  for (const NamespaceStatus& each : namespaces) {
    json["namespaces"].push_back(JsonOf(each));
  }
  json["next"] =
      namespaces.size() == kNamespacesPerPage ? namespaces.back().name : "";
  return json;
}

absl::StatusOr<Json> NamespaceJson(const StatusSources& sources,
                                   const Query& query) {
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   sources.namespaces->DescribeNamespace(*query.name_space,
                                                         ContextOfPage()));
  ASSIGN_OR_RETURN(const std::vector<OpenRound> rounds,
                   sources.summaries->OpenRounds(*query.name_space));
  ListRequest list;
  list.name_space = *query.name_space;
  list.prefix = query.prefix;
  list.page_size = kKeysPerPage;
  list.page_token = query.after;
  ASSIGN_OR_RETURN(const ListReply reply,
                   sources.store->List(list, ContextOfPage()));
  Json json = {{"namespace", JsonOf(status)},
               {"num_workers", status.workers.size()},
               {"workers", JsonOf(status.workers)},
               {"rounds", JsonOf(rounds)},
               {"awaited", AwaitedJson(rounds, status.workers)},
               {"keys", Json::array()},
               {"next", reply.next_page_token}};
  for (const KeyStatus& key : reply.keys) json["keys"].push_back(JsonOf(key));
  return json;
}

absl::StatusOr<std::string> StatusText(const StatusSources& sources,
                                       const HttpQuery& fields) {
  ASSIGN_OR_RETURN(const Query query, ParseQuery(fields));
  ASSIGN_OR_RETURN(const Json json, query.name_space
                                        ? NamespaceJson(sources, query)
                                        : ServerJson(sources, query.after));
  return TextOf(json);
}

HttpPage FilePage(const char* content_type, absl::string_view text) {
  return {.content_type = content_type,
          .text = [text](const HttpQuery&) { return std::string(text); },
          .is_for_own_hosts = true};
}

}  // namespace

std::map<std::string, HttpPage, std::less<>> StatusPages(
    StatusSources sources) {
  HttpPage json = {.content_type = "application/json",
                   .text =
                       [sources = std::move(sources)](const HttpQuery& query) {
                         return StatusText(sources, query);
                       },
                   .is_for_own_hosts = true};
  return {{"/", FilePage("text/html; charset=utf-8", kStatusHtml)},
          {"/status.css", FilePage("text/css; charset=utf-8", kStatusCss)},
          {"/status.js", FilePage("text/javascript; charset=utf-8", kStatusJs)},
          {"/status.json", std::move(json)}};
}

}  // namespace tensorkv
