#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/option_types.h"
#include "client/cli/snapshot_text.h"
#include "client/cli/usage_error.h"
#include "contract/duration.h"
#include "tensor/dtype.h"

namespace tensorkv {
namespace {

using MetadataEntry = std::pair<std::string, std::string>;

// Reads "step=42". Errors: InvalidArgument.
absl::StatusOr<MetadataEntry> ParseMetadata(const std::string& text) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() == 2) return MetadataEntry(parts[0], parts[1]);
  return absl::InvalidArgumentError(
      absl::StrCat("expected NAME=VALUE, got ", text));
}

struct SnapshotFlags {
  std::string series;
  std::optional<uint64_t> number;
  std::optional<uint64_t> expected_latest;
  std::vector<std::string> prefixes;
  std::vector<std::string> metadata;
  std::optional<absl::Duration> time_to_live;
  uint32_t keep_last = 0;
  DType dtype = DType::kUnknown;
};

absl::Status RunSnapshotCreate(const SnapshotFlags& flags,
                               Invocation& invocation) {
  CreateSnapshotRequest request;
  request.set_series(flags.series);
  if (flags.number) request.set_number(*flags.number);
  if (flags.expected_latest) {
    request.set_expected_latest(*flags.expected_latest);
  }
  request.mutable_prefixes()->Add(flags.prefixes.begin(), flags.prefixes.end());
  for (const std::string& text : flags.metadata) {
    absl::StatusOr<MetadataEntry> metadata = ParseMetadata(text);
    if (!metadata.ok()) return AsUsageError("--metadata", metadata.status());
    (*request.mutable_metadata())[metadata->first] = metadata->second;
  }
  if (flags.time_to_live) {
    EncodeDuration(*flags.time_to_live, request.mutable_time_to_live());
  }
  request.set_keep_last(flags.keep_last);
  request.set_dtype(static_cast<v1::DType>(flags.dtype));
  ASSIGN_OR_RETURN(const CreateSnapshotReply reply,
                   invocation.client.CreateSnapshot(std::move(request)));
  invocation.Print(reply);
  return absl::OkStatus();
}

void AddSnapshotCreate(CLI::App& snapshot, Action& action) {
  const auto flags = std::make_shared<SnapshotFlags>();
  CLI::App* const create = snapshot.add_subcommand(
      "create", "Keep the values of keys as they are now, by name");
  create->add_option("series", flags->series, "What to call it, with a number")
      ->required();
  create
      ->add_option("--number", flags->number,
                   "Its number [one above the latest]")
      ->check(CLI::NonNegativeNumber);
  create
      ->add_option("--expected_latest", flags->expected_latest,
                   "Only if this is the latest number; 0: there is none")
      ->check(CLI::NonNegativeNumber);
  create
      ->add_option("--prefix", flags->prefixes,
                   "Only keys that begin like this; may be repeated")
      ->allow_extra_args(false);
  create
      ->add_option("--metadata", flags->metadata,
                   "What readers are told, as step=42; may be repeated")
      ->allow_extra_args(false);
  AddParsed(*create, "--ttl", flags->time_to_live, ParseDuration,
            "How long it stays, as 1h [no end]");
  create
      ->add_option("--keep_last", flags->keep_last,
                   "The series keeps so many from now on")
      ->check(CLI::NonNegativeNumber);
  AddParsed(*create, "--dtype", flags->dtype, ParseDType,
            "What readers get of floats that are no narrower, as bf16");
  OnRun(*create, action, flags, RunSnapshotCreate);
}

void AddSnapshotLs(CLI::App& snapshot, Action& action) {
  const auto prefix = std::make_shared<std::string>();
  CLI::App* const ls =
      snapshot.add_subcommand("ls", "List snapshots that can be read");
  ls->add_option("-p,--prefix", *prefix, "Only series that begin like this");
  OnRun(*ls, action, prefix,
        [](const std::string& prefix, Invocation& invocation) -> absl::Status {
          ASSIGN_OR_RETURN(const std::vector<v1::SnapshotStatus> snapshots,
                           invocation.client.ListAllSnapshots(prefix));
          invocation.PrintTable(
              snapshots,
              {"series", "number", "revision", "create_time", "time_left",
               "num_keys", "bytes", "num_leases", "metadata"});
          return absl::OkStatus();
        });
}

// Adds a command about the snapshots that `parse` makes a request of.
template <typename Request>
void AddOfSnapshots(CLI::App& snapshot, Action& action, const char* name,
                    const char* help, const char* argument_help,
                    absl::StatusOr<Request> (*parse)(const std::string&),
                    absl::Status (*run)(const Request&, Invocation&)) {
  const auto request = std::make_shared<Request>();
  CLI::App* const command = snapshot.add_subcommand(name, help);
  AddParsed(*command, "snapshot", *request, parse, argument_help)->required();
  OnRun(*command, action, request, run);
}

absl::Status RunSnapshotShow(const SnapshotReference& at,
                             Invocation& invocation) {
  DescribeSnapshotRequest request;
  *request.mutable_at() = at;
  ASSIGN_OR_RETURN(const DescribeSnapshotReply reply,
                   invocation.client.DescribeSnapshot(std::move(request)));
  invocation.Print(reply);
  return absl::OkStatus();
}

// Reads "SERIES" or "SERIES@42". Errors: InvalidArgument.
absl::StatusOr<DeleteSnapshotRequest> ParseRemovedSnapshots(
    const std::string& text) {
  DeleteSnapshotRequest request;
  request.set_series(text);
  if (!absl::StrContains(text, '@')) return request;
  ASSIGN_OR_RETURN(const SnapshotReference named, ParseSnapshot(text));
  if (!named.has_number()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected SERIES or SERIES@42, got ", text));
  }
  request.set_series(named.series());
  request.set_number(named.number());
  return request;
}

absl::Status RunSnapshotRm(const DeleteSnapshotRequest& request,
                           Invocation& invocation) {
  ASSIGN_OR_RETURN(const DeleteSnapshotReply reply,
                   invocation.client.DeleteSnapshot(request));
  invocation.Print(reply);
  return absl::OkStatus();
}

}  // namespace

void AddSnapshotCommands(CLI::App& app, Action& action) {
  CLI::App* const snapshot = app.add_subcommand(
      "snapshot", "Named snapshots of the namespace, which pull --at reads");
  snapshot->require_subcommand(1);
  AddSnapshotCreate(*snapshot, action);
  AddSnapshotLs(*snapshot, action);
  AddOfSnapshots(
      *snapshot, action, "show", "Print one snapshot, and who keeps it",
      "SERIES, its latest; SERIES@42; SERIES@>=42, for which this waits",
      ParseSnapshot, RunSnapshotShow);
  AddOfSnapshots(*snapshot, action, "rm",
                 "Let snapshots go, whoever keeps them; the numbers go on",
                 "SERIES, all that it has; SERIES@42", ParseRemovedSnapshots,
                 RunSnapshotRm);
}

}  // namespace tensorkv
