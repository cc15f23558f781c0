#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/npy.h"
#include "client/cli/run_cli.h"
#include "client/local/local_connection.h"
#include "gtest/gtest.h"
#include "tests/client/cli/run_on.h"
#include "tests/client/shared_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::Outcome;
using ::tensorkv::testing::RunOn;
using ::tensorkv::testing::SharedConnection;

// Runs the words of `line` on `store`.
Outcome RunLine(LocalConnection& store, absl::string_view line,
                const std::string& input = "") {
  return RunOn([&] { return std::make_unique<SharedConnection>(store); },
               absl::StrSplit(line, ' ', absl::SkipEmpty()), input);
}

// Whether `text` is `pattern`, in which "..." stands for anything.
bool Matches(absl::string_view text, absl::string_view pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, "...");
  if (text.substr(0, parts[0].size()) != parts[0]) return false;
  text.remove_prefix(parts[0].size());
  for (size_t i = 1; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const size_t at = is_last ? text.rfind(parts[i]) : text.find(parts[i]);
    if (at == absl::string_view::npos) return false;
    text.remove_prefix(at + parts[i].size());
  }
  return text.empty();
}

// Command lines after "$ ", one after the other on a store in this process, and
// below each what it prints, at the end its exit code if that is not 0.
struct Transcript {
  const char* name;
  const char* text;
};

class StoreCliTest : public ::testing::TestWithParam<Transcript> {};

TEST_P(StoreCliTest, PrintsWhatIsExpected) {
  LocalConnection store;
  for (const absl::string_view step :
       absl::StrSplit(GetParam().text, "\n$ ", absl::SkipEmpty())) {
    const std::vector<std::string> parts =
        absl::StrSplit(step, absl::MaxSplits('\n', 1));
    const std::string expected =
        parts.size() == 1 || parts[1].empty() ? "" : parts[1] + "\n";

    const Outcome outcome = RunLine(store, parts[0]);

    const std::string got =
        absl::StrCat(outcome.out, outcome.err,
                     outcome.exit_code == kExitOk
                         ? ""
                         : absl::StrCat("exit ", outcome.exit_code, "\n"));
    EXPECT_TRUE(Matches(got, expected)) << parts[0] << "\nexpected:\n"
                                        << expected << "got:\n"
                                        << got;
  }
}

constexpr Transcript kTranscripts[] = {
    {"Values", R"(
$ init 3 5 --shape=1 --fill=2
$ pull 3 5
3:
2.0
5:
2.0
$ push 3 5 --fill=1 --times=2
3: version 2
5: version 2
$ --output=json push 3 --fill=1
{"key":"3","version":"3","step":"0","repeated":false,"token":""}
$ pull 3 5 --output=json
{"key":"3","version":"3",..."tensor":{...},"values":[1.0]}
{"key":"5",...,"values":[2.0]}
$ push_pull 3 5 --fill=1 --times=3
3:
3.0
5:
3.0
$ pull x
tensorkv: NOT_FOUND: key "x"...
exit 1)"},
    {"DTypesAndShapes", R"(
$ init 3 --shape=2 --dtype=i32 --fill=2
$ push 3 --fill=-7
3: version 2
$ pull 3
-7 -7
$ init 5 --shape=[2,1] --fill=3
$ pull 5
3.0
3.0
$ init 7 --shape=[] --fill=3
$ pull 7
3.0)"},
    {"RowsAlone", R"(
$ init w --shape=3,2 --fill=1
$ push w --rows=2,0,2 --fill=5
w: version 2
$ pull w --rows=2,1
10.0 10.0
1.0 1.0
$ push w --rows 1 --update_all_rows --fill=5
w: version 3
$ pull w
0.0 0.0
5.0 5.0
0.0 0.0
$ pull w --rows=3
...got 3...
exit 1
$ push w --rows=1 --fill=5 --compression=f16
...exit 2)"},
    // f8e5m2 has 8 and 10; of two that are as near it is the even one.
    {"ValuesOfAnotherDType", R"(
$ init w --shape=2 --fill=9
$ pull w --dtype=f8e5m2
8.0 8.0
$ pull w --dtype=f16 --output=json
..."DTYPE_F16"...
$ pull w --dtype=i8
...exit 1
$ pull w --dtype=f16 --rows=1
...exit 2)"},
    {"States", R"(
$ ns create train --rule=sgd(learning_rate=1,momentum=0.5)
$ init w --shape=2 --fill=0 --namespace=train
$ set_state momentum w --fill=8 --namespace=train
$ push w --fill=0 --namespace=train
w: version 2
$ get_state momentum w --namespace=train
4.0 4.0
$ set_state update_count w --fill=7 --namespace=train
$ get_state update_count --prefix=w --namespace=train
7
$ get_state variance w --namespace=train
...variance...
exit 1
$ pull w --state=momentum
...exit 2)"},
    {"CompressedPushes", R"(
$ init w --shape=2 --fill=0
$ push w --fill=3 --compression=2bit:0.5
w: version 2
$ pull w
0.5 0.5
$ push w --fill=3 --compression=3bit
tensorkv: --compression: ...
exit 2)"},
    {"SyncPushNamesItsRound", R"(
$ ns create train --mode=sync --workers=1
$ init w --shape=1 --fill=0 --namespace=train
$ push w --fill=4 --namespace=train --rank=0 --step=1
w: step 1
$ pull w --namespace=train
4.0
$ rounds train
step  last_end_time         rounds_closed  rounds_failed  rounds_unlisted  contributors  failures  workers
1     ...Z  1              0              0                [1 key: 0]    []        []
$ rounds --namespace=train --steps=1 --output=json
{"step":"1",...
$ rounds train --first=2
step  last_end_time  rounds_closed  rounds_failed  rounds_unlisted  contributors  failures  workers
$ rounds
...MODE_SYNC...
exit 1)"},
    {"InitOfAnExistingKey", R"(
$ init 3 --shape=1 --fill=2
$ init 3 --shape=1 --fill=9
...exit 1
$ init 3 --shape=1 --fill=9 --on_existing=keep
$ pull 3
2.0
$ init 3 --shape=1 --fill=9 --on_existing=replace
$ pull 3
9.0)"},
    {"Keys", R"(
$ init a1 a2 b --shape=2,3 --fill=2
$ ls --prefix=a
key  dtype  shape  version  value_bytes
a1   f32    [2,3]  1        24 B
a2   f32    [2,3]  1        24 B
$ ls --limit=2 --output=json
{"key":"a1",...}
{"key":"a2",...}
$ stat a1 b --digest
key:                        a1
...
digest:                     ...
key:                        b
...
$ pull --prefix=a
a1:
2.0 2.0 2.0
2.0 2.0 2.0
a2:
2.0 2.0 2.0
2.0 2.0 2.0
$ rm a1 nothing --allow_missing
num_deleted:  1
$ rm a2 --output=json
{"num_deleted":"1"}
$ rm -p b
num_deleted:  1
$ rm -p b
num_deleted:  0
$ pull -p b
$ ls --output=json)"},
    {"KeysLikeAGlob", R"(
$ init a.bias a.w b.bias --shape=1 --fill=2
$ ls --pattern=*.bias
key     dtype  shape  version  value_bytes
a.bias  f32    [1]    1        4 B
b.bias  f32    [1]    1        4 B
$ ls --pattern=*.bias --limit=1 --output=json
{"key":"a.bias",...}
$ pull --pattern=a.?
2.0
$ stat --pattern=a.* --output=json
{"key":"a.bias",...}
{"key":"a.w",...}
$ stat --prefix=x
$ rm --pattern=*.bias
num_deleted:  2
$ ls --output=json
{"key":"a.w",...}
$ rm --pattern=*.bias a.w
...one of them
exit 2
$ rm --pattern=*.bias --prefix=a
...exit 2)"},
    {"Namespaces", R"(
$ ns create train --mode=sync --workers=2 --rule=sgd --budget=1MiB
$ ns ls
name     mode   num_workers  live_workers  num_keys  values  state  rule
...
train    sync   2            0             0         0 B     0 B    sgd(...
$ ns describe train
...
config.mode:                    sync
...
config.budget_bytes:            1.0 MiB
...
calls_waiting:                  0
live_workers:                   0
...
$ ns describe --output=json --namespace=train
{"name":"train",..."config":{"mode":"MODE_SYNC",...
$ ns create train --mode=sync --workers=2 --rule=sgd --budget=1MiB
...exit 1
$ ns create train --mode=sync --workers=2 --rule=sgd --budget=1MiB --on_existing=keep
$ workers train
rank  name  epoch  live  left  step  lease_remaining
$ workers --namespace=train --output=json
$ init w --shape=1 --fill=2 --namespace=train
$ ns rm train
...has 1 keys: --force...
exit 1
$ ns rm train --force
$ ns ls --output=json
{"name":"default",...})"},
    {"NamespacesOfTheFlags", R"(
$ ns create g --non_finite=skip --max_norm=1.5 --max_call_norm=2.5 --large_norm=refuse
$ ns describe g
...
config.gradient_guard.on_non_finite:  skip
config.gradient_guard.max_norm:       1.5
config.gradient_guard.on_large_norm:  refuse
config.gradient_guard.max_call_norm:  2.5
...
$ ns create t --mode=sync --workers=3 --aggregation=trimmed_mean --trim_fraction=0.25
$ ns describe t
...
config.aggregation:             trimmed_mean
config.trim_fraction:           0.25
...
$ ns create m --mode=sync --workers=2 --aggregation=mean --sum_order=arrival
$ init w --shape=1 --fill=0 --namespace=m
$ push w --fill=8 --weight=3 --namespace=m --rank=0 --step=1
w: step 1
$ push w --fill=4 --namespace=m --rank=1 --step=1
w: step 1
$ pull w --namespace=m
7.0
$ ns create q --mode=sync --workers=3 --quorum=2 --quorum_grace=500ms
$ ns describe q
...
config.quorum:                  2
config.quorum_grace:            500ms
...
$ ns update q --quorum=3 --rescale
...
config.rescale_partial_rounds:  true
config.quorum:                  3
config.quorum_grace:            500ms
...
$ ns update q --rescale=false
...
$ ns create q --mode=sync --workers=3 --quorum=2 --on_existing=keep
...quorum: expected 3, got 2; quorum_grace: expected 500ms, got 0...
exit 1
$ ns update q --quorum=4
...expected at most 3 workers, got 4...
exit 1)"},
    {"Rules", R"(
$ rule set sgd(learning_rate=0.5)
$ rule set adam --pattern=*.bias
$ rule tune momentum=0.25 learning_rate=0.125
key_pattern:  ""
rule:         sgd(...learning_rate=0.125...momentum=0.25...)
$ rule get
key_pattern  rule
*.bias       adam(...)
""           sgd(...)
$ rule get --output=json
{"key_pattern":"*.bias","rule":{"name":"adam",...}}
{"key_pattern":"",...}
$ rule set --lr_mult=2 --wd_mult=0 --pattern=*.bias
$ rule get
...
key_pattern  learning_rate  weight_decay
*.bias       2              0
$ init fc.bias --shape=1 --fill=0
$ stat fc.bias
...
rule:                       adam(...)
update_count:               0
multipliers.learning_rate:  2
multipliers.weight_decay:   0
learning_rate:              0.002
...
$ rule unset *.bias --multipliers
$ rule unset *.bias
$ rule get
key_pattern  rule
""           sgd(...))"},
    {"NamesOfCommandsAndBrackets", R"(
$ init ls [a,b] [c] c --shape=2 --fill=1
$ pull ls [a,b]
ls:
1.0 1.0
[a,b]:
1.0 1.0
$ rm [c]
num_deleted:  1
$ pull c
1.0 1.0)"},
    {"ShortNamesOfFlags", R"(
$ ns create n
$ init w --shape=1 -f 2 -n n
$ pull w -n n -o json -t 5s
...[2.0]}
$ stat w -d -n n
...
digest:...)"},
    {"Watch", R"(
$ init w/a w/b x --shape=1 --fill=2
$ watch w/ --initial --count=2
revision  key  version  deleted  series  number
1         w/a  1        ...
1         w/b  1        ...
$ snapshot create policy --number=42
...
$ -o json watch --series=policy --initial --count=1
{"key":"",...,"series":"policy","number":"42"})"},
    {"Snapshots", R"(
$ init w/a w/b x --shape=1 --fill=2
$ snapshot create policy --prefix w/ --metadata loss=0.5 --metadata by=a=b
number:    1
revision:  ...
num_keys:  2
bytes:     8 B
uid:       ...
gone:      []
$ push w/a --fill=3
w/a: version 2
$ snapshot create policy --number=42 --expected_latest=1 --ttl=1h
number:    42
...
$ snapshot create policy --number=42
tensorkv: FAILED_PRECONDITION: ...
exit 1
$ snapshot create policy --expected_latest=1
tensorkv: ABORTED: ...
exit 1
$ snapshot create values --dtype=bf16
number:    1
...
$ snapshot ls
series  number  revision  create_time  ...
policy  1       ...Z  -  ...2         8 B    0           [by=a=b,loss=0.5]
policy  42      ...Z  ...3         12 B   0           []
values  1       ...Z  -  ...
$ snapshot ls --prefix=val
series ...
values  1 ...
$ snapshot ls -p nothing
series ...
$ -o json snapshot ls -p val
{"series":"values","number":"1",...}
$ pull w/a --at policy@1
2.0
$ pull w/a --at policy
3.0
$ pull w/a --at policy@latest
3.0
$ pull w/a x --at policy@>=2
w/a:
3.0
x:
2.0
$ pull -p w/ --at policy@1
w/a:
2.0
w/b:
2.0
$ pull w/b --rows 0,0 --at policy@1
2.0 2.0
$ pull x --at policy@1
tensorkv: NOT_FOUND: ...
exit 1
$ pull w/a --at policy@7
tensorkv: NOT_FOUND: ...
exit 1
$ pull w/a --at policy@>=43 --timeout=10ms
tensorkv: DEADLINE_EXCEEDED: ...
exit 1
$ snapshot show policy@1
snapshot.series:       policy
snapshot.number:       1
snapshot.revision:     ...
snapshot.create_time:  ...Z
snapshot.metadata:     [by=a=b,loss=0.5]
snapshot.prefixes:     [w/]
snapshot.num_keys:     2
snapshot.bytes:        8 B
snapshot.num_leases:   0
snapshot.uid:          ...
snapshot.servers:      []
snapshot.dtype:        ...
snapshot.num_parts:    0
retained_bytes:        4 B
keep_last:             0
$ pull x --at values -o json
...DTYPE_BF16...
$ diff policy 1 42
CHANGE        ELEMENTS   CHANGED   NORM_OF_IT  NORM_BEFORE  KEY
changed              1 100.0000%            1            2  w/a
added                1                                      x
2 of 3 keys have changed
$ diff policy 1 1
0 of 2 keys have changed
$ -o json diff policy 1 42 -p w/
{"key":"w/a","change":"changed","num_elements":1,"num_changed":1,"norm_of_change":1.0,"norm_before":2.0}
$ diff policy 42 1 -p x
CHANGE  ...
removed              1                                      x
1 of 1 keys have changed
$ diff policy 1 7
tensorkv: NOT_FOUND: ...
exit 1
$ -o json snapshot show policy
{"snapshot":{"series":"policy","number":"42",...}
$ snapshot rm policy@1
num_deleted:  1
gone:         []
$ snapshot rm policy@1
tensorkv: NOT_FOUND: ...
exit 1
$ snapshot rm policy
num_deleted:  1
gone:         []
$ snapshot create policy --keep_last=2
number:    43
...)"},
    {"StoreInNoCluster", R"(
$ cluster status
...in no cluster
exit 1)"},
};

INSTANTIATE_TEST_SUITE_P(, StoreCliTest, ::testing::ValuesIn(kTranscripts),
                         [](const auto& each) { return each.param.name; });

TEST(StoreCliNpyTest, GoesInAndOutThroughTheStandardStreams) {
  LocalConnection store;
  ASSERT_OK_AND_ASSIGN(const std::string file, FormatNpy(Full({2, 2}, 5)));

  EXPECT_EQ(RunLine(store, "init 3 --npy -", file).exit_code, kExitOk);

  EXPECT_EQ(RunLine(store, "pull 3 --npy -").out, file);
}

}  // namespace
}  // namespace tensorkv
