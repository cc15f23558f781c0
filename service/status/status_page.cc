#include "service/status/status_page.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "contract/any_call.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "service/rpc/message_codec.h"
#include "service/status/page_files.h"

namespace tensorkv {
namespace {

using Json = nlohmann::json;

// A page of a list ends where its message would exceed this.
constexpr MessageLimits kLimits = {.max_message_bytes = 4 << 20};
constexpr size_t kMaxRounds = 100;
constexpr size_t kMaxRanks = 32;
constexpr uint32_t kMaxSnapshots = 20;
constexpr uint32_t kMaxSteps = 3;

// Returns the JSON as UTF-8, whatever bytes the names have.
std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> TextOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options)
           .ok()) {
    return absl::InternalError("the reply cannot be written in JSON");
  }
  return text;
}

// Makes the call. REQUIRES: it is answered at once.
template <typename Request>
absl::StatusOr<typename MessagesOf<Request>::Response> Call(
    const Handlers& handlers,
    const typename MessagesOf<Request>::Request& request) {
  ASSIGN_OR_RETURN(grpc::ByteBuffer bytes, Serialize(request, kLimits));
  const Answer<absl::StatusOr<grpc::ByteBuffer>> answer;
  handlers.of(kMethodOf<Request>)
      .run(&bytes, {.timeout = absl::Seconds(10)},
           [answer](absl::StatusOr<grpc::ByteBuffer> reply) {
             answer.Set(std::move(reply));
           });
  ASSIGN_OR_RETURN(grpc::ByteBuffer reply_bytes, answer.Wait());
  typename MessagesOf<Request>::Response reply;
  RETURN_IF_ERROR(Parse(&reply_bytes, kLimits, &reply));
  return reply;
}

// Makes the call whose request has the fields of the query. REQUIRES: it is
// answered at once.
template <typename Request>
absl::StatusOr<std::string> Ask(const Handlers& handlers,
                                const HttpQuery& query) {
  typename MessagesOf<Request>::Request request;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      TextOf(Json(query)), &request);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "query: expected fields of ", request.GetDescriptor()->name(), ": ",
        parsed.message().ToString()));
  }
  ASSIGN_OR_RETURN(const auto reply, Call<Request>(handlers, request));
  return TextOf(reply);
}

// Tells of the first snapshots after a page token, as ListSnapshots does, with
// what DescribeSnapshot adds: who has them, and what they retain.
absl::StatusOr<std::string> SnapshotsText(const Handlers& handlers,
                                          const HttpQuery& query) {
  const auto field = [&](const char* name) {
    const auto found = query.find(name);
    return found == query.end() ? std::string() : found->second;
  };
  v1::ListSnapshotsRequest list;
  list.set_namespace_(field("namespace"));
  list.set_page_token(field("page_token"));
  list.set_page_size(kMaxSnapshots);
  ASSIGN_OR_RETURN(const v1::ListSnapshotsResponse page,
                   Call<ListSnapshotsRequest>(handlers, list));
  Json snapshots = Json::array();
  for (const v1::SnapshotStatus& each : page.snapshots()) {
    v1::DescribeSnapshotRequest describe;
    describe.set_namespace_(list.namespace_());
    *describe.mutable_at() = SnapshotOf(each.series(), each.number());
    const auto told = Call<DescribeSnapshotRequest>(handlers, describe);
    // It may have gone.
    if (absl::IsNotFound(told.status())) continue;
    RETURN_IF_ERROR(told.status());
    ASSIGN_OR_RETURN(const std::string text, TextOf(*told));
    Json& shown = snapshots.emplace_back(Json::parse(text));
    // Who the callers are is for those who ask by calls.
    for (Json& lease : shown["leases"]) lease.erase("caller");
  }
  const Json reply = {{"snapshots", std::move(snapshots)},
                      {"next_page_token", page.next_page_token()}};
  return TextOf(reply);
}

// Cuts a list off behind what a page shows of it.
template <typename List>
void Cut(List& list, int size) {
  if (list.size() > size) list.erase(list.begin() + size, list.end());
}

// Leaves out who only has a name, and what is more than a page shows.
void Shorten(v1::StepRecord& record) {
  // One more says that there are more.
  constexpr int kRanks = static_cast<int>(kMaxRanks) + 1;
  auto& workers = *record.mutable_workers();
  workers.erase(std::remove_if(workers.begin(), workers.end(),
                               [](v1::StepWorker worker) {
                                 worker.clear_rank();
                                 worker.clear_name();
                                 return worker.ByteSizeLong() == 0;
                               }),
                workers.end());
  Cut(workers, kRanks);
  for (v1::StepContributors& list : *record.mutable_contributors()) {
    Cut(*list.mutable_contributions(), kRanks);
    Cut(*list.mutable_missing(), kRanks);
  }
  for (v1::StepFailure& failure : *record.mutable_failures()) {
    Cut(*failure.mutable_ranks(), kRanks);
    Cut(*failure.mutable_came(), kRanks);
  }
}

// Tells of the newest steps of a namespace as DescribeSteps does.
absl::StatusOr<std::string> StepsText(const Handlers& handlers,
                                      const HttpQuery& query) {
  const auto name_space = query.find("namespace");
  if (name_space == query.end() || query.size() > 1) {
    return absl::InvalidArgumentError("query: expected namespace alone");
  }
  v1::DescribeStepsRequest request;
  request.set_namespace_(name_space->second);
  request.set_page_size(kMaxSteps);
  ASSIGN_OR_RETURN(v1::DescribeStepsResponse page,
                   Call<DescribeStepsRequest>(handlers, request));
  for (v1::StepRecord& record : *page.mutable_steps()) Shorten(record);
  return TextOf(page);
}

absl::StatusOr<std::string> OpenRoundsText(const NamespaceSummaries& summaries,
                                           const HttpQuery& query) {
  const auto name_space = query.find("namespace");
  if (name_space == query.end() || query.size() > 1) {
    return absl::InvalidArgumentError("query: expected namespace alone");
  }
  ASSIGN_OR_RETURN(const std::vector<OpenRound> rounds,
                   summaries.OpenRounds(name_space->second));
  Json list = Json::array();
  for (const OpenRound& round : rounds) {
    if (list.size() == kMaxRounds) break;
    std::vector<uint32_t> ranks = round.missing;
    ranks.resize(std::min(ranks.size(), kMaxRanks));
    list.push_back({{"key", round.key},
                    {"step", round.step},
                    {"missing", std::move(ranks)},
                    {"num_missing", round.missing.size()}});
  }
  const Json reply = {{"rounds", std::move(list)}};
  return TextOf(reply);
}

HttpPage JsonPage(
    std::function<absl::StatusOr<std::string>(const HttpQuery&)> text) {
  return {.content_type = "application/json",
          .text = std::move(text),
          .is_for_own_hosts = true};
}

HttpPage FilePage(const char* content_type, absl::string_view text) {
  return {.content_type = content_type,
          .text = [text](const HttpQuery&) { return std::string(text); },
          .is_for_own_hosts = true};
}

}  // namespace

std::map<std::string, HttpPage, std::less<>> StatusPages(
    const HandlerDependencies& dependencies,
    const NamespaceSummaries* summaries) {
  std::map<std::string, HttpPage, std::less<>> pages = {
      {"/", FilePage("text/html; charset=utf-8", kStatusHtml)},
      {"/status.css", FilePage("text/css; charset=utf-8", kStatusCss)},
      {"/status.js", FilePage("text/javascript; charset=utf-8", kStatusJs)},
      {"/status/OpenRounds", JsonPage([summaries](const HttpQuery& query) {
         return OpenRoundsText(*summaries, query);
       })}};
  const auto handlers = std::make_shared<const Handlers>(dependencies, kLimits);
  const auto add = [&]<typename Request>(Request) {
    pages[absl::StrCat("/status/", NameOf(kMethodOf<Request>))] =
        JsonPage([handlers](const HttpQuery& query) {
          return Ask<Request>(*handlers, query);
        });
  };
  add(DescribeServerRequest());
  add(DescribeClusterRequest());
  add(ListNamespacesRequest());
  add(DescribeNamespaceRequest());
  add(ListRequest());
  pages["/status/Steps"] = JsonPage([handlers](const HttpQuery& query) {
    return StepsText(*handlers, query);
  });
  pages["/status/Snapshots"] = JsonPage([handlers](const HttpQuery& query) {
    return SnapshotsText(*handlers, query);
  });
  return pages;
}

}  // namespace tensorkv
