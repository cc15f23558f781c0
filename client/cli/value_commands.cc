#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/key_selection.h"
#include "client/cli/npy.h"
#include "client/cli/option_types.h"
#include "client/cli/plain_text.h"
#include "client/cli/snapshot_text.h"
#include "client/cli/usage_error.h"
#include "client/cli/value_source.h"
#include "client/cli/value_text.h"
#include "client/compression/compression.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

// More entries than any server takes in one call.
constexpr uint32_t kMaxTimes = 1'000'000;

struct ValueCommandFlags {
  KeySelection selection;
  std::vector<int64_t> rows;
  bool update_all_rows = false;
  ValueFlags value;
  OnExisting on_existing = OnExisting::kFail;
  uint32_t times = 1;
  double weight = 1;
  Compression compression;
  Version min_version = 0;
  bool wait_for_keys = false;
  std::string npy_out;
  std::string state;
  DType pulled_dtype = DType::kUnknown;
  std::optional<SnapshotReference> at;
};

void AddKeys(CLI::App& command, ValueCommandFlags& flags) {
  command.add_option("keys", flags.selection.keys, "Keys")->required();
}

void AddValueFlags(CLI::App& command, ValueFlags& flags) {
  AddParsed(command, "--shape", flags.shape, ParseShape, "Dimensions, as 2,3");
  AddParsed(command, "--dtype", flags.dtype, ParseDType,
            "f32 f64 f16 bf16 f8e4m3fn f8e5m2 i8 u8 i16 u16 i32 u32 i64 u64 "
            "bool");
  AddParsed(command, "-f,--fill", flags.fill, ParseFill,
            "The number in every element");
  command.add_option("--npy", flags.npy,
                     "A .npy file with the value; - for the standard input; "
                     "--dtype converts it");
}

absl::StatusOr<GetStateReply> GetStates(const std::vector<std::string>& keys,
                                        const ValueCommandFlags& flags,
                                        Invocation& invocation) {
  std::vector<GetStateEntry> entries;
  for (const std::string& key : keys) entries.push_back({key, flags.state});
  return invocation.client.GetState(std::move(entries));
}

absl::Status RunInit(const ValueCommandFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const ValueSource source,
                   ValueSource::Create(flags.value, invocation.in));
  if (!source.shape().has_value()) {
    return UsageError("--fill needs --shape, as --shape=2,3 (or [])");
  }
  std::vector<InitEntry> entries;
  for (const std::string& key : flags.selection.keys) {
    ASSIGN_OR_RETURN(Tensor tensor, source.Make(DType::kF32, {}));
    entries.push_back({key, std::move(tensor)});
  }
  return invocation.client.Init(std::move(entries), flags.on_existing);
}

// The states as they are set: what the flags leave out is as they are now.
absl::Status RunSetState(const ValueCommandFlags& flags,
                         Invocation& invocation) {
  ASSIGN_OR_RETURN(const ValueSource source,
                   ValueSource::Create(flags.value, invocation.in));
  std::vector<Value> present(flags.selection.keys.size());
  if (!source.dtype().has_value() || !source.shape().has_value()) {
    ASSIGN_OR_RETURN(GetStateReply reply,
                     GetStates(flags.selection.keys, flags, invocation));
    present = std::move(reply.values);
  }
  std::vector<SetStateEntry> entries;
  for (size_t i = 0; i < flags.selection.keys.size(); ++i) {
    const Tensor& state = present[i].tensor;
    ASSIGN_OR_RETURN(Tensor tensor, source.Make(state.dtype(), state.shape()));
    entries.push_back(
        {flags.selection.keys[i], flags.state, std::move(tensor)});
  }
  return invocation.client.SetState(std::move(entries));
}

absl::StatusOr<RefPtr<const RowIds>> MakeRowIds(
    const ValueCommandFlags& flags) {
  const auto size = static_cast<int64_t>(flags.rows.size());
  ASSIGN_OR_RETURN(Tensor ids,
                   Tensor::CopyOf(DType::kI64, {size}, flags.rows.data()));
  return RowIds::Create(std::move(ids));
}

// Returns the shape of a contribution to a key of `shape`.
Shape ShapeToPush(const Shape& shape, const ValueCommandFlags& flags) {
  if (flags.rows.empty() || shape.rank() == 0) return shape;
  std::vector<int64_t> dimensions(shape.dimensions().begin(),
                                  shape.dimensions().end());
  dimensions[0] = static_cast<int64_t>(flags.rows.size());
  return Shape::Create(dimensions).value_or(shape);
}

// Returns a tensor per key; asks the server for what the flags leave to the
// keys.
absl::StatusOr<std::vector<Tensor>> MakeContributions(
    const ValueCommandFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const ValueSource source,
                   ValueSource::Create(flags.value, invocation.in));
  std::vector<KeyStatus> stored(flags.selection.keys.size());
  if (!source.dtype().has_value() || !source.shape().has_value()) {
    ASSIGN_OR_RETURN(stored, invocation.client.Stat(flags.selection.keys));
  }
  std::vector<Tensor> tensors;
  for (const KeyStatus& status : stored) {
    ASSIGN_OR_RETURN(const Shape shape, ShapeOf(status));
    ASSIGN_OR_RETURN(Tensor tensor,
                     source.Make(DTypeOf(status), ShapeToPush(shape, flags)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<PushEntry>> MakeEntries(
    const ValueCommandFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                   MakeContributions(flags, invocation));
  std::vector<PushEntry> entries;
  for (size_t i = 0; i < flags.selection.keys.size(); ++i) {
    const PushEntry entry = {.key = flags.selection.keys[i],
                             .tensor = tensors[i],
                             .weight = flags.weight};
    entries.insert(entries.end(), flags.times, entry);
  }
  invocation.client.SetCompression(
      {.rules = {{"", flags.compression}}, .min_bytes = 0});
  return entries;
}

std::string PushResultText(const std::string& key,
                           const v1::PushResult& result) {
  if (result.step() != 0) return absl::StrCat(key, ": step ", result.step());
  return absl::StrCat(key, ": version ", result.version());
}

absl::StatusOr<PushReply> PushEntries(const ValueCommandFlags& flags,
                                      std::vector<PushEntry> entries,
                                      Invocation& invocation) {
  const PushOptions options = {.step = invocation.flags.step};
  if (flags.rows.empty()) {
    return invocation.client.Push(std::move(entries), options);
  }
  ASSIGN_OR_RETURN(const RefPtr<const RowIds> rows, MakeRowIds(flags));
  for (PushEntry& entry : entries) {
    entry.rows = rows;
    entry.update_all_rows = flags.update_all_rows;
  }
  return invocation.client.PushRows(std::move(entries), options);
}

absl::Status RunPush(const ValueCommandFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(std::vector<PushEntry> entries,
                   MakeEntries(flags, invocation));
  ASSIGN_OR_RETURN(const PushReply reply,
                   PushEntries(flags, std::move(entries), invocation));
  const auto response = MessageOf<v1::PushResponse>(reply);
  // The entries of one key have one result.
  for (size_t i = 0; i < flags.selection.keys.size(); ++i) {
    const std::string& key = flags.selection.keys[i];
    const v1::PushResult& result = response.results(i * flags.times);
    invocation.out << (invocation.flags.is_json() ? MessageJson(key, result)
                                                  : PushResultText(key, result))
                   << "\n";
  }
  return absl::OkStatus();
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor,
                      Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string bytes, FormatNpy(tensor));
  if (path == "-") {
    invocation.out << bytes;
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes << std::flush;
  if (file) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("--npy=", path, ": cannot write: ", std::strerror(errno)));
}

void PrintValue(const std::string& key, const Value& value, bool with_key,
                Invocation& invocation) {
  if (invocation.flags.is_json()) {
    invocation.out << ValueJson(key, value) << "\n";
    return;
  }
  if (with_key) invocation.out << PlainText(key) << ":\n";
  invocation.out << ValueText(value.tensor);
}

// REQUIRES: a value per key.
void PrintValues(const std::vector<std::string>& keys,
                 const std::vector<Value>& values, Invocation& invocation) {
  for (size_t i = 0; i < keys.size(); ++i) {
    PrintValue(keys[i], values[i], keys.size() > 1, invocation);
  }
}

absl::StatusOr<PullReply> PullKeys(const std::vector<std::string>& keys,
                                   const ValueCommandFlags& flags,
                                   Invocation& invocation) {
  PullRequest request = {.wait_for_keys = flags.wait_for_keys,
                         .dtype = flags.pulled_dtype,
                         .at = flags.at};
  for (const std::string& key : keys) {
    request.entries.push_back({key, flags.min_version});
  }
  if (flags.rows.empty()) return invocation.client.Pull(std::move(request));
  ASSIGN_OR_RETURN(const RefPtr<const RowIds> rows, MakeRowIds(flags));
  for (PullEntry& entry : request.entries) entry.rows = rows;
  return invocation.client.PullRows({std::move(request)});
}

// Reads by `read(keys, flags, invocation)`, and prints or writes what it gives.
template <typename Read>
absl::Status RunRead(const ValueCommandFlags& flags, Invocation& invocation,
                     Read read) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   KeysToUse(flags.selection, invocation.client, flags.at));
  if (!flags.npy_out.empty() && keys.size() != 1) {
    return UsageError(
        absl::StrCat("--npy: expected one key, got ", keys.size()));
  }
  if (keys.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PullReply reply, read(keys, flags, invocation));
  if (!flags.npy_out.empty()) {
    return WriteNpy(flags.npy_out, reply.values[0].tensor, invocation);
  }
  PrintValues(keys, reply.values, invocation);
  return absl::OkStatus();
}

// Waits for the snapshot that the flags name, and has them name its number.
absl::Status AwaitSnapshot(ValueCommandFlags& flags, Invocation& invocation) {
  DescribeSnapshotRequest request;
  *request.mutable_at() = *flags.at;
  ASSIGN_OR_RETURN(const DescribeSnapshotReply reply,
                   invocation.client.DescribeSnapshot(std::move(request)));
  flags.at->set_number(reply.snapshot().number());
  return absl::OkStatus();
}

absl::Status RunPull(const ValueCommandFlags& flags, Invocation& invocation) {
  if (!flags.at || !flags.selection.is_listed()) {
    return RunRead(flags, invocation, PullKeys);
  }
  // The list of the keys and their values are of the same snapshot.
  ValueCommandFlags exact = flags;
  RETURN_IF_ERROR(AwaitSnapshot(exact, invocation));
  return RunRead(exact, invocation, PullKeys);
}

absl::Status RunGetState(const ValueCommandFlags& flags,
                         Invocation& invocation) {
  return RunRead(flags, invocation, GetStates);
}

absl::Status RunPushPull(const ValueCommandFlags& flags,
                         Invocation& invocation) {
  ASSIGN_OR_RETURN(std::vector<PushEntry> entries,
                   MakeEntries(flags, invocation));
  ASSIGN_OR_RETURN(const PullReply reply,
                   invocation.client.PushPull(std::move(entries),
                                              {.step = invocation.flags.step}));
  // The entries of one key have one value.
  std::vector<Value> values;
  for (size_t i = 0; i < reply.values.size(); i += flags.times) {
    values.push_back(reply.values[i]);
  }
  PrintValues(flags.selection.keys, values, invocation);
  return absl::OkStatus();
}

using Run = absl::Status (*)(const ValueCommandFlags&, Invocation&);

// Adds a command with flags of its own, which `run` gets.
std::pair<CLI::App*, ValueCommandFlags*> AddCommand(CLI::App& app,
                                                    Action& action,
                                                    const char* name,
                                                    const char* help, Run run) {
  CLI::App* command = app.add_subcommand(name, help);
  auto flags = std::make_shared<ValueCommandFlags>();
  OnRun(*command, action, flags, run);
  return {command, flags.get()};
}

void AddTimes(CLI::App& command, ValueCommandFlags& flags) {
  command
      .add_option("--times", flags.times,
                  "Send the value this often for each key, in one call")
      ->check(CLI::Range(uint32_t{1}, kMaxTimes));
}

CLI::Option* AddRows(CLI::App& command, ValueCommandFlags& flags,
                     const char* help) {
  return command.add_option("--rows", flags.rows, help)->delimiter(',');
}

CLI::Option* AddCompression(CLI::App& command, ValueCommandFlags& flags) {
  return AddParsed(
      command, "--compression", flags.compression, Compression::Parse,
      "Encode the values: 2bit:THRESHOLD, 1bit:THRESHOLD, sign, "
      "topk:FRACTION, randomk:FRACTION, dithering:BITS[,natural][,l2], "
      "i8:BLOCK, f8e4m3fn[:BLOCK], f8e5m2[:BLOCK], f16 or bf16");
}

void AddInit(CLI::App& app, Action& action) {
  auto [init, init_flags] = AddCommand(
      app, action, "init",
      "Create keys with values, of dtype f32 if no other is given", RunInit);
  AddKeys(*init, *init_flags);
  AddValueFlags(*init, init_flags->value);
  AddChoice(*init, "--on_existing", init_flags->on_existing,
            "What to do about keys that exist: fail, keep or replace");
}

void AddWeight(CLI::App& command, ValueCommandFlags& flags) {
  command.add_option("--weight", flags.weight,
                     "What each value weighs in a namespace with means");
}

void AddPush(CLI::App& app, Action& action) {
  auto [push, push_flags] = AddCommand(
      app, action, "push",
      "Contribute values; dtype and shape default to the key's", RunPush);
  AddKeys(*push, *push_flags);
  AddValueFlags(*push, push_flags->value);
  AddTimes(*push, *push_flags);
  CLI::Option* const rows =
      AddRows(*push, *push_flags,
              "Contribute to these rows alone, as 3,1,3: one row of the value "
              "for each")
          ->excludes(AddCompression(*push, *push_flags));
  AddWeight(*push, *push_flags);
  push->add_flag("--update_all_rows", push_flags->update_all_rows,
                 "The other rows get zeros, instead of staying as they are")
      ->needs(rows);
}

void AddReadFlags(CLI::App& command, ValueCommandFlags& flags) {
  AddKeySelection(command, flags.selection);
  command.add_option("--npy", flags.npy_out,
                     "Write the value to this .npy file; - for the standard "
                     "output");
}

void AddState(CLI::App& command, ValueCommandFlags& flags) {
  command
      .add_option("state", flags.state,
                  "A state, as stat lists them, or update_count")
      ->required();
}

void AddStateCommands(CLI::App& app, Action& action) {
  auto [set_state, set_state_flags] =
      AddCommand(app, action, "set_state",
                 "Set a state of keys; dtype and shape default to the state's",
                 RunSetState);
  AddState(*set_state, *set_state_flags);
  AddKeys(*set_state, *set_state_flags);
  AddValueFlags(*set_state, set_state_flags->value);
  auto [get_state, get_state_flags] =
      AddCommand(app, action, "get_state",
                 "Print a state of keys, as pull prints values", RunGetState);
  AddState(*get_state, *get_state_flags);
  AddReadFlags(*get_state, *get_state_flags);
}

void AddPull(CLI::App& app, Action& action) {
  auto [pull, pull_flags] = AddCommand(
      app, action, "pull",
      "Print values; of long ones the ends, with --output=json all", RunPull);
  AddReadFlags(*pull, *pull_flags);
  CLI::Option* const min_version =
      pull->add_option("--min_version", pull_flags->min_version,
                       "Wait until each key has reached this version")
          ->check(CLI::NonNegativeNumber);
  CLI::Option* const wait_for_keys =
      pull->add_flag("-w,--wait_for_keys", pull_flags->wait_for_keys,
                     "Wait for keys that do not exist yet");
  AddParsed(*pull, "--at", pull_flags->at, ParseSnapshot,
            "As a snapshot has them: SERIES, its latest; SERIES@42; "
            "SERIES@>=42, for which this waits")
      ->excludes(min_version)
      ->excludes(wait_for_keys);
  CLI::Option* const pulled_rows =
      AddRows(*pull, *pull_flags, "Print these rows alone, as 3,1,3");
  AddParsed(*pull, "--dtype", pull_flags->pulled_dtype, ParseDType,
            "Have the server convert floats, to no wider ones: to f16, bf16, "
            "f8e4m3fn, f8e5m2, f32 or f64")
      ->excludes(pulled_rows);
}

void AddPushPull(CLI::App& app, Action& action) {
  auto [push_pull, push_pull_flags] =
      AddCommand(app, action, "push_pull",
                 "Contribute values and print the outcome", RunPushPull);
  AddKeys(*push_pull, *push_pull_flags);
  AddValueFlags(*push_pull, push_pull_flags->value);
  AddTimes(*push_pull, *push_pull_flags);
  AddWeight(*push_pull, *push_pull_flags);
  AddCompression(*push_pull, *push_pull_flags);
}

}  // namespace

void AddValueCommands(CLI::App& app, Action& action) {
  AddInit(app, action);
  AddPush(app, action);
  AddPull(app, action);
  AddPushPull(app, action);
  AddStateCommands(app, action);
}

}  // namespace tensorkv
