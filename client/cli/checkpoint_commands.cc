#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/option_types.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

constexpr char kNameHelp[] = "The checkpoint, as ls lists it";

void AddSave(CLI::App& checkpoint, Action& action) {
  struct Flags {
    std::string name;
    std::vector<std::string> namespaces;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* const save = checkpoint.add_subcommand(
      "save", "Write the server's state to its checkpoint directory");
  save->add_option("name", flags->name, "Made up by the server if left out");
  save->add_option("--only", flags->namespaces,
                   "Namespaces to write (default: all)");
  const auto run = [](const Flags& flags,
                      Invocation& invocation) -> absl::Status {
    ASSIGN_OR_RETURN(
        const CheckpointStatus status,
        invocation.client.SaveCheckpoint(flags.name, flags.namespaces));
    invocation.Print(status);
    return absl::OkStatus();
  };
  OnRun(*save, action, flags, run);
}

void AddRestore(CLI::App& checkpoint, Action& action) {
  struct Flags {
    std::string name;
    std::vector<std::string> namespaces;
    std::string as_namespace;
    OnExisting on_existing = OnExisting::kFail;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* const restore = checkpoint.add_subcommand(
      "restore", "Make namespaces of a checkpoint while the server goes on");
  restore->add_option("name", flags->name, kNameHelp)->required();
  restore->add_option("--only", flags->namespaces,
                      "Namespaces to restore (default: all)");
  restore->add_option("--as", flags->as_namespace,
                      "What to call the one namespace (default: its name)");
  AddChoice(*restore, "--on_existing", flags->on_existing,
            "fail, or replace namespaces that exist: their state is lost",
            {"fail", "replace"});
  const auto run = [](const Flags& flags,
                      Invocation& invocation) -> absl::Status {
    RestoreCheckpointRequest request;
    request.set_name(flags.name);
    request.mutable_namespaces()->Add(flags.namespaces.begin(),
                                      flags.namespaces.end());
    request.set_as_namespace(flags.as_namespace);
    request.set_on_existing(EncodeOnExisting(flags.on_existing));
    ASSIGN_OR_RETURN(const CheckpointStatus status,
                     invocation.client.RestoreCheckpoint(request));
    invocation.Print(status);
    return absl::OkStatus();
  };
  OnRun(*restore, action, flags, run);
}

void AddList(CLI::App& checkpoint, Action& action) {
  checkpoint.add_subcommand("ls", "List checkpoints, the oldest first")
      ->callback([&action] {
        action = [](Invocation& invocation) -> absl::Status {
          ASSIGN_OR_RETURN(const std::vector<CheckpointStatus> checkpoints,
                           invocation.client.ListCheckpoints());
          invocation.PrintTable(
              checkpoints, {"name", "create_time", "bytes", "written_bytes",
                            "num_keys", "namespaces", "sequence", "automatic"});
          return absl::OkStatus();
        };
      });
}

// Adds a command about one checkpoint.
template <typename Function>
void AddAbout(CLI::App& checkpoint, const char* name, const char* description,
              Action& action, Function about) {
  const auto checkpoint_name = std::make_shared<std::string>();
  CLI::App* const command = checkpoint.add_subcommand(name, description);
  command->add_option("name", *checkpoint_name, kNameHelp)->required();
  OnRun(*command, action, checkpoint_name, about);
}

}  // namespace

void AddCheckpointCommands(CLI::App& app, Action& action) {
  CLI::App* const checkpoint =
      app.add_subcommand("checkpoint", "Checkpoints of the server");
  checkpoint->require_subcommand(1);
  AddSave(*checkpoint, action);
  AddRestore(*checkpoint, action);
  AddList(*checkpoint, action);
  AddAbout(*checkpoint, "rm", "Delete a checkpoint", action,
           [](const std::string& name, Invocation& invocation) {
             return invocation.client.DeleteCheckpoint(name);
           });
  AddAbout(*checkpoint, "verify",
           "Read all of a checkpoint and compare it with its digests", action,
           [](const std::string& name, Invocation& invocation) -> absl::Status {
             ASSIGN_OR_RETURN(const CheckpointStatus status,
                              invocation.client.VerifyCheckpoint(name));
             invocation.Print(status);
             return absl::OkStatus();
           });
}

}  // namespace tensorkv
