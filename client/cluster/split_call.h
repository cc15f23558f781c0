// Turns calls about keys, some of them in slices, into calls about the slices.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLIT_CALL_H_
#define TENSORKV_CLIENT_CLUSTER_SPLIT_CALL_H_

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/split_entries.h"
#include "client/cluster/split_layout.h"
#include "client/destination.h"
#include "contract/any_call.h"
#include "contract/requests.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Returns the layout of a key; null for a key that is not in slices.
inline const SplitLayout* FindLayout(const SplitLayouts& layouts,
                                     const std::string& key) {
  const auto found = layouts.find(key);
  return found == layouts.end() ? nullptr : &found->second;
}

// A call about keys, and the call about keys and slices that is made in its
// place.
template <typename Request>
class SplitCall {
 public:
  using Reply = ReplyTo<Request>;

  // `request` and `layouts` outlive it. Errors: those of AppendSlices.
  static absl::StatusOr<SplitCall> Create(const Request& request,
                                          const SplitLayouts& layouts) {
    SplitCall call(request);
    ClearEntries(call.made_);
    auto& out = MutableEntriesIn(call.made_);
    for (const auto& entry : EntriesIn(request)) {
      SplitEntry& split = call.entries_.emplace_back();
      split.layout = FindLayout(layouts, KeyIn(entry));
      split.begin = out.size();
      if (split.layout == nullptr) {
        AddEntry(entry, call.made_);
      } else {
        RETURN_IF_ERROR(AppendSlices(entry, *split.layout, split, out));
      }
      split.end = out.size();
    }
    return call;
  }

  const Request& made() const { return made_; }

  // Returns a destination for each entry of made(), of a Pull or a PushPull.
  // Allocates those of slices one behind the other in the whole tensor's
  // memory: the caller's where dtype and shape fit, else memory that is
  // allocated here. Errors: ResourceExhausted.
  absl::StatusOr<std::vector<Destination>> AllocateDestinations(
      absl::Span<const Destination> destinations) {
    std::vector<Destination> placed;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Destination of_caller =
          destinations.empty() ? Destination() : destinations[i];
      const SplitEntry& split = entries_[i];
      if (split.layout == nullptr) {
        placed.push_back(of_caller);
        continue;
      }
      Tensor& whole = wholes_.emplace_back();
      ASSIGN_OR_RETURN(whole, MemoryOf(*split.layout, of_caller));
      absl::c_move(SliceDestinations(*split.layout, whole),
                   std::back_inserter(placed));
    }
    return placed;
  }

  // Returns the reply to the request, of the reply to made(): the answers of
  // the slices of a key become one. Errors: Internal (another number of
  // answers) · those of JoinAnswers.
  absl::StatusOr<Reply> Join(Reply made) {
    return JoinAll(made, AnswersIn(made));
  }

 private:
  explicit SplitCall(const Request& request)
      : request_(request), made_(request) {}

  absl::StatusOr<Tensor> MemoryOf(const SplitLayout& layout,
                                  const Destination& of_caller) const {
    DType dtype = request_.dtype;
    if (dtype == DType::kUnknown) dtype = layout.dtype;
    const bool fits = of_caller.memory.data() != nullptr &&
                      of_caller.dtype == dtype &&
                      of_caller.shape == layout.shape;
    if (!fits) return Tensor::Allocate(dtype, layout.shape);
    return Tensor::Unchecked(
        dtype, layout.shape,
        MakeRefCounted<AdoptedBuffer>(of_caller.memory.data(),
                                      of_caller.memory.size(), [] {}));
  }

  // Add the answer to an entry to those of a reply.
  template <typename Answer>
  static void AddAnswer(Answer answer, std::vector<Answer>& answers) {
    answers.push_back(std::move(answer));
  }
  static void AddAnswer(
      KeyStatus answer,
      google::protobuf::RepeatedPtrField<KeyStatus>& answers) {
    answers.Add(std::move(answer));
  }
  // Return the answers of the slices of an entry.
  template <typename Answer>
  static absl::Span<const Answer> AnswersOf(
      const SplitEntry& split, const std::vector<Answer>& answers) {
    return absl::MakeConstSpan(answers).subspan(split.begin,
                                                split.end - split.begin);
  }
  static absl::Span<const KeyStatus* const> AnswersOf(
      const SplitEntry& split,
      const google::protobuf::RepeatedPtrField<KeyStatus>& answers) {
    return absl::MakeConstSpan(answers.data() + split.begin,
                               split.end - split.begin);
  }

  template <typename Answers>
  absl::StatusOr<Reply> JoinAll(Reply& made, Answers& answers) {
    using Answer = typename Answers::value_type;
    const size_t num_entries = EntriesIn(made_).size();
    if (static_cast<size_t>(answers.size()) != num_entries) {
      return absl::InternalError(absl::StrCat("expected an answer to each of ",
                                              num_entries, " entries, got ",
                                              answers.size()));
    }
    Answers joined;
    size_t num_wholes = 0;
    for (const SplitEntry& split : entries_) {
      if (split.layout == nullptr) {
        AddAnswer(std::move(answers[split.begin]), joined);
        continue;
      }
      const auto of_entry = AnswersOf(split, answers);
      if constexpr (std::is_same_v<Answer, Value>) {
        Tensor whole = wholes_.empty() ? Tensor() : wholes_[num_wholes++];
        ASSIGN_OR_RETURN(Value value,
                         JoinAnswers(split, of_entry, std::move(whole)));
        joined.push_back(std::move(value));
      } else {
        AddAnswer(JoinAnswers(split, of_entry), joined);
      }
    }
    answers = std::move(joined);
    return std::move(made);
  }

  const Request& request_;
  Request made_;
  std::vector<SplitEntry> entries_;
  // The tensors in which values are placed, one for each entry with a layout.
  std::vector<Tensor> wholes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLIT_CALL_H_
