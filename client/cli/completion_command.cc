#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"

namespace tensorkv {
namespace {

using Commands = std::vector<const CLI::App*>;

Commands CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void AppendFlags(const CLI::App& app, std::vector<std::string>& words) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words.push_back("--" + name);
    }
  }
}

// A line per command, "ns create) words=...;;", with all that may follow it.
void AppendCases(const CLI::App& root, const CLI::App& app,
                 const std::string& path, std::string& cases) {
  std::vector<std::string> words;
  for (const CLI::App* command : CommandsOf(app)) {
    words.push_back(command->get_name());
  }
  AppendFlags(app, words);
  if (&app != &root) AppendFlags(root, words);
  absl::StrAppend(&cases, "    '", path, "') words='",
                  absl::StrJoin(words, " "), "' ;;\n");
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string& name = command->get_name();
    AppendCases(root, *command, path.empty() ? name : path + " " + name, cases);
  }
}

// The shell's pattern for a word after the name of a command that has commands
// of its own: "ns:*|rule:*".
std::string GroupPattern(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(root)) {
    if (!CommandsOf(*command).empty())
      names.push_back(command->get_name() + ":*");
  }
  return absl::StrJoin(names, "|");
}

// The command is the first word that is no flag, and no value of one, and after
// the name of a group the next. Bash takes "--flag=value" for three words, and
// "host:port" too: what begins with = or : goes on where the word before ended,
// and takes the next word with it.
std::string BashScript(const CLI::App& root) {
  std::string cases;
  AppendCases(root, root, "", cases);
  return absl::StrCat(R"(_tensorkv() {
  local path='' words='' word skip=''
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$skip$path:$word" in
      1:[=:]*|:[=:]*) skip=1 ;;
      1:*) skip='' ;;
      :-*=*) ;;
      :-*) skip=1 ;;
      *:-*) ;;
      :*) path=$word ;;
      )",
                      GroupPattern(root), R"() path="$path $word" ;;
    esac
  done
  case "$path" in
)",
                      cases, R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _tensorkv tensorkv
)");
}

}  // namespace

void AddCompletionCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print a script that completes command lines; in ~/.bashrc: "
      "source <(tensorkv completion bash)");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([&app, &action, shell] {
    action = [&app, shell](Invocation& invocation) {
      // zsh understands the script once it has been told to.
      if (*shell == "zsh") {
        invocation.out << "autoload -U +X compinit bashcompinit\n"
                          "compinit\nbashcompinit\n";
      }
      invocation.out << BashScript(app);
      return absl::OkStatus();
    };
  });
}

}  // namespace tensorkv
