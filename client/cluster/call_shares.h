// Calls that name keys, cut into shares by who owns them.
//
// Works for every request with an entry, or a key, per key (kNamesKeys), whose
// reply answers each in its order or says how many there were.

#ifndef TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_
#define TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/cluster/request_entries.h"
#include "contract/any_call.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {

// The entries of a call that one server owns. `places` are their indices among
// the call's entries.
struct CallShare {
  std::string server;
  std::vector<size_t> places;
};

// Cuts a call into shares, and joins their replies. Places are indices of
// entries. Not thread-safe, but for Share, and for JoinReply as far as no other
// thread joins the same reply.
template <typename Request>
class CallShares {
 public:
  // `request` outlives it.
  explicit CallShares(const Request& request)
      : entries_(EntriesIn(request)), frame_(request) {
    ClearEntries(frame_);
  }

  size_t num_entries() const { return entries_.size(); }
  const std::string& name_space() const { return NamespaceIn(frame_); }
  // Returns the places of all entries.
  std::vector<size_t> AllPlaces() const {
    std::vector<size_t> places(entries_.size());
    std::iota(places.begin(), places.end(), size_t{0});
    return places;
  }

  // Returns the shares, in the order of the servers, into which the entries at
  // `places` fall by their owners. A call without entries is one share without
  // entries, for the namespace's home to refuse.
  std::vector<CallShare> Cut(const ClusterPlacement& placement,
                             absl::Span<const size_t> places) const {
    std::map<uint32_t, std::vector<size_t>> by_owner;
    for (const size_t place : places) {
      by_owner[OwnerOf(placement, name_space(), KeyIn(entries_[place]))]
          .push_back(place);
    }
    if (entries_.empty()) by_owner[OwnerOf(placement, name_space(), "")];
    std::vector<CallShare> shares;
    for (auto& [owner, share] : by_owner) {
      shares.push_back({placement.servers[owner].name, std::move(share)});
    }
    return shares;
  }

  // Returns the request with the entries at `places` only. Tensors are not
  // copied.
  Request Share(absl::Span<const size_t> places) const {
    Request share = frame_;
    Reserve(places.size(), MutableEntriesIn(share));
    for (const size_t place : places) AddEntry(entries_[place], share);
    return share;
  }

  // Puts the answers to the entries at `places` into the whole call's reply.
  // Errors: Internal (another number of answers).
  absl::Status JoinReply(ReplyTo<Request> share,
                         absl::Span<const size_t> places,
                         ReplyTo<Request>& whole) const {
    if constexpr (requires { whole.num_deleted(); }) {
      whole.set_num_deleted(whole.num_deleted() + share.num_deleted());
    } else {
      auto& answers = AnswersIn(share);
      if (static_cast<size_t>(answers.size()) != places.size()) {
        return absl::InternalError(
            absl::StrCat("expected an answer to each of ", places.size(),
                         " entries, got ", answers.size()));
      }
      auto& all = AnswersIn(whole);
      Resize(entries_.size(), all);
      for (size_t i = 0; i < places.size(); ++i) {
        all[places[i]] = std::move(answers[i]);
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename Entry>
  static void Reserve(size_t size, std::vector<Entry>& entries) {
    entries.reserve(size);
  }
  static void Reserve(size_t size,
                      google::protobuf::RepeatedPtrField<std::string>& keys) {
    keys.Reserve(static_cast<int>(size));
  }
  template <typename Answer>
  static void Resize(size_t size, std::vector<Answer>& answers) {
    answers.resize(size);
  }
  static void Resize(size_t size,
                     google::protobuf::RepeatedPtrField<KeyStatus>& answers) {
    answers.Reserve(static_cast<int>(size));
    while (static_cast<size_t>(answers.size()) < size) answers.Add();
  }

  const std::decay_t<decltype(EntriesIn(std::declval<const Request&>()))>&
      entries_;
  // All of the request but its entries.
  Request frame_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CALL_SHARES_H_
