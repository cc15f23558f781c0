// Calls that name keys, cut into shares by who owns them.
//
// Works for every request with an entry, or a key, per key (kNamesKeys), whose
// reply answers each in its order or says how many there were.

#ifndef TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_
#define TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
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
#include "contract/placement.h"
#include "contract/requests.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The pieces of a call that one server owns. `places` are their indices among
// the call's pieces.
struct CallShare {
  std::string server;
  std::vector<size_t> places;
};

// Returns whether the call is about a key that is in slices.
template <typename Request>
bool NamesOneOf(const SplitLayouts* layouts, const Request& request) {
  if (layouts == nullptr || layouts->empty()) return false;
  return absl::c_any_of(EntriesIn(request), [&](const auto& entry) {
    return FindLayout(layouts, KeyIn(entry)) != nullptr;
  });
}

// Cuts a call into shares, and joins their replies. A piece is an entry of the
// call, or the part of an entry that concerns one slice of its key. Places are
// indices of pieces. Not thread-safe, but for Share and DestinationsAt, and for
// JoinReply as far as no other thread joins the same reply.
template <typename Request>
class CallShares {
 public:
  using Reply = ReplyTo<Request>;

  // `request`, `layouts`, which may be null, and `destinations`, where values
  // are to be received, outlive it. Errors: those of AppendSlices ·
  // ResourceExhausted.
  static absl::StatusOr<CallShares> Create(
      const Request& request, const SplitLayouts* layouts,
      absl::Span<const Destination> destinations = {}) {
    CallShares call(request, destinations);
    if (NamesOneOf(layouts, request)) {
      RETURN_IF_ERROR(call.CutEntries(*layouts));
      if constexpr (kFillsMemory) RETURN_IF_ERROR(call.AllocateWholes());
    }
    return call;
  }

  // Returns the request whose entries are the pieces.
  const Request& made() const { return is_cut() ? cut_ : *request_; }
  // Returns where the values of all pieces are received; none: anywhere.
  absl::Span<const Destination> destinations() const {
    return is_cut() ? absl::MakeConstSpan(placed_) : destinations_;
  }

  const std::string& name_space() const { return NamespaceIn(frame_); }
  // Returns the places of all pieces.
  std::vector<size_t> AllPlaces() const {
    std::vector<size_t> places(pieces().size());
    std::iota(places.begin(), places.end(), size_t{0});
    return places;
  }

  // Returns the shares, in the order of the servers, into which the pieces at
  // `places` fall by their owners. A call without entries is one share without
  // entries, for the namespace's home to refuse.
  std::vector<CallShare> Cut(const ClusterPlacement& placement,
                             absl::Span<const size_t> places) const {
    std::map<uint32_t, std::vector<size_t>> by_owner;
    for (const size_t place : places) {
      by_owner[OwnerOf(placement, name_space(), KeyIn(pieces()[place]))]
          .push_back(place);
    }
    if (pieces().empty()) by_owner[OwnerOf(placement, name_space(), "")];
    std::vector<CallShare> shares;
    for (auto& [owner, share] : by_owner) {
      shares.push_back({placement.servers[owner].name, std::move(share)});
    }
    return shares;
  }

  // Returns the request with the pieces at `places` only. Tensors are not
  // copied.
  Request Share(absl::Span<const size_t> places) const {
    Request share = frame_;
    Reserve(places.size(), MutableEntriesIn(share));
    for (const size_t place : places) AddEntry(pieces()[place], share);
    return share;
  }
  // Returns where the values of the pieces at `places` are received.
  std::vector<Destination> DestinationsAt(
      absl::Span<const size_t> places) const {
    std::vector<Destination> of_share;
    if (destinations().empty()) return of_share;
    for (const size_t place : places) {
      of_share.push_back(destinations()[place]);
    }
    return of_share;
  }

  // Puts the answers to the pieces at `places` into the reply to made().
  // Errors: Internal (another number of answers).
  absl::Status JoinReply(Reply share, absl::Span<const size_t> places,
                         Reply& made) const {
    if constexpr (kCountsKeys) {
      made.set_num_deleted(made.num_deleted() + share.num_deleted());
    } else {
      auto& answers = AnswersIn(share);
      RETURN_IF_ERROR(CheckNumAnswers(answers.size(), places.size()));
      auto& all = AnswersIn(made);
      Resize(pieces().size(), all);
      for (size_t i = 0; i < places.size(); ++i) {
        all[places[i]] = std::move(answers[i]);
      }
    }
    return absl::OkStatus();
  }

  // Returns the reply to the request, of the reply to made(): the answers of
  // the slices of a key become one. Errors: Internal (another number of
  // answers) · those of JoinAnswers.
  absl::StatusOr<Reply> Whole(Reply made) {
    if (!is_cut()) return made;
    if constexpr (kCountsKeys) {
      const uint64_t num_more = pieces().size() - entries_.size();
      made.set_num_deleted(made.num_deleted() -
                           std::min<uint64_t>(made.num_deleted(), num_more));
    } else {
      RETURN_IF_ERROR(JoinPieces(AnswersIn(made)));
    }
    return made;
  }

 private:
  static constexpr bool kCountsKeys = requires(Reply & reply) {
    reply.num_deleted();
  };
  // The values of slices come one behind the other in the whole tensor.
  static constexpr bool kFillsMemory = std::is_same_v<Request, PullRequest> ||
                                       std::is_same_v<Request, PushPullRequest>;

  CallShares(const Request& request, absl::Span<const Destination> destinations)
      : request_(&request), destinations_(destinations), frame_(request) {
    ClearEntries(frame_);
  }

  bool is_cut() const { return !entries_.empty(); }
  const auto& pieces() const { return EntriesIn(made()); }

  absl::Status CutEntries(const SplitLayouts& layouts) {
    cut_ = frame_;
    auto& out = MutableEntriesIn(cut_);
    for (const auto& entry : EntriesIn(*request_)) {
      SplitEntry& split = entries_.emplace_back();
      split.layout = FindLayout(&layouts, KeyIn(entry));
      split.begin = out.size();
      if (split.layout == nullptr) {
        AddEntry(entry, cut_);
      } else {
        RETURN_IF_ERROR(AppendSlices(entry, *split.layout, split, out));
      }
      split.end = out.size();
    }
    return absl::OkStatus();
  }

  // Places the values of slices in the caller's memory where dtype and shape
  // fit, else in memory that is allocated here.
  absl::Status AllocateWholes() {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Destination of_caller =
          destinations_.empty() ? Destination() : destinations_[i];
      const SplitEntry& split = entries_[i];
      if (split.layout == nullptr) {
        placed_.push_back(of_caller);
        continue;
      }
      Tensor& whole = wholes_.emplace_back();
      ASSIGN_OR_RETURN(whole, MemoryOf(*split.layout, of_caller));
      absl::c_move(SliceDestinations(*split.layout, whole),
                   std::back_inserter(placed_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> MemoryOf(const SplitLayout& layout,
                                  const Destination& of_caller) const {
    DType dtype = request_->dtype;
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

  template <typename Answers>
  absl::Status JoinPieces(Answers& answers) {
    RETURN_IF_ERROR(CheckNumAnswers(answers.size(), pieces().size()));
    Answers joined;
    size_t num_wholes = 0;
    for (const SplitEntry& split : entries_) {
      if (split.layout == nullptr) {
        Append(std::move(answers[split.begin]), joined);
        continue;
      }
      const auto of_entry = absl::MakeConstSpan(answers.data() + split.begin,
                                                split.end - split.begin);
      if constexpr (std::is_same_v<typename Answers::value_type, Value>) {
        Tensor whole = wholes_.empty() ? Tensor() : wholes_[num_wholes++];
        ASSIGN_OR_RETURN(Value value,
                         JoinAnswers(split, of_entry, std::move(whole)));
        joined.push_back(std::move(value));
      } else {
        Append(JoinAnswers(split, of_entry), joined);
      }
    }
    answers = std::move(joined);
    return absl::OkStatus();
  }

  static absl::Status CheckNumAnswers(size_t num_answers, size_t num_pieces) {
    if (num_answers == num_pieces) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("expected an answer to each of ",
                                            num_pieces, " entries, got ",
                                            num_answers));
  }

  const Request* request_;
  absl::Span<const Destination> destinations_;
  // All of the request but its entries.
  Request frame_;

  // These say what became of the entries; all are empty where none is cut.
  std::vector<SplitEntry> entries_;
  Request cut_;
  // The tensors in which values are placed, one for each entry with a layout,
  // and where in them those of each piece are.
  std::vector<Tensor> wholes_;
  std::vector<Destination> placed_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_
