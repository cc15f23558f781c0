// Updates of some rows of a key, as batches of updates of small tensors.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_ROW_BATCHES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_ROW_BATCHES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/row_ids.h"
#include "kernels/backend.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Bytes that one id costs while its row is updated: its place among the others,
// and what refers to its elements.
inline constexpr uint64_t kBytesPerRowId = 64;

// Return whether any contribution names rows, and whether all rows are to be
// updated nevertheless.
bool HasRows(absl::Span<const Slot> slots);
bool UpdatesAllRows(absl::Span<const Slot> slots);
// Returns whether rows that nobody names are updated, and no tensor brings them
// any elements.
bool NeedsZeros(absl::Span<const Slot> slots);

// Cuts the update of a key by contributions of which some bring rows: what
// backends see of a row is a small tensor, a view of the key's value and states
// and of what is brought for it. Rows that follow one another everywhere are
// one such tensor. Used by one thread; a batch refers to this object.
//
// A row gets what is brought for it in the order of the contributions and,
// where one names it several times, of its ids. Rows that nobody names are in
// no update, unless all rows are to be updated: then they get what the
// contributions of tensors bring, or zeros if there is none.
class RowBatches {
 public:
  // Returns how many zeros a key of such rows takes at most, of its accumulate
  // type.
  static int64_t NumZeros(int64_t num_elements_of_row) {
    return std::max<int64_t>(16 * 1024, num_elements_of_row);
  }

  struct Options {
    // The key's update as if a tensor made it; its contributions are not looked
    // at.
    TensorUpdate whole;
    int64_t num_rows = 0;
    // In their order. They outlive the batches.
    absl::Span<const Slot> slots;
    bool update_all_rows = false;
    // NumZeros of them, or as many as the key has elements if these are fewer;
    // may be null unless all rows are to be updated, and none of the
    // contributions is a tensor.
    const void* zeros = nullptr;
    // Says what ContributionWeights says; unset: there are no weights.
    std::optional<double> total_weight;
    // Has the rows that are updated follow one another in `whole.value`.
    bool is_compact = false;
  };

  explicit RowBatches(const Options& options);

  // Returns the next batch, good until the next call; empty after the last one.
  absl::Span<const TensorUpdate> Next();
  // Has Next begin with the first batch again.
  void Rewind();

  // Returns the rows that are named, rising.
  std::vector<int64_t> NamedRows() const;
  // Has the new value go elsewhere. REQUIRES: Next has not been called.
  void SetValue(const MutableTensorView& value) {
    options_.whole.value = value;
  }

 private:
  // A row that contribution `slot` brings at `position`.
  struct Named {
    int64_t row;
    int64_t position;
    uint32_t slot;
  };

  // Adds the next rows that are named.
  void AddNamed();
  // Adds a run of rows that nobody names, which ends at `end_row` or before.
  void AddUnnamed(int64_t end_row);
  // Returns the place after the ids of the row at `first`.
  size_t EndOfRow(size_t first) const;
  // Returns whether the ids from `next` on, of the next row, continue those
  // from `first` to `end` everywhere, `distance` rows before them.
  bool Continues(size_t first, size_t end, size_t next, int64_t distance) const;
  // Adds the views of tensors among the contributions from `slot` on, up to
  // `end`.
  void AddDense(uint32_t slot, uint32_t end, int64_t first_row,
                int64_t num_rows);
  // `packed_first` is where in what is packed the view begins.
  void AddView(const TensorView& view, const Packing* packing,
               uint64_t packed_first, double factor);
  // Adds the view of `count` elements of a contribution, from its element
  // `first` on.
  void AddPart(const Slot& slot, int64_t num_elements, int64_t first,
               int64_t count);
  // Ends an update whose views begin at `first_view`.
  void AddUpdate(int64_t first_row, int64_t num_rows, size_t first_view);
  // Adds the views of those rows of the key's states.
  void AddStates(int64_t first_row, int64_t num_rows);
  bool IsFull() const;
  // Has the updates refer to their views.
  void Connect();
  void ConnectWeights();

  Options options_;
  const DType accumulate_type_;
  int64_t row_elements_ = 0;
  bool has_dense_ = false;
  bool has_packed_ = false;
  // Ordered by row, and for one row as they are to be added.
  std::vector<Named> named_;

  // Say how far the batches have come: among named_, in the key, and in a
  // compact value.
  size_t next_named_ = 0;
  int64_t next_row_ = 0;
  int64_t next_place_ = 0;

  // The present batch. Updates have as many states each.
  std::vector<TensorUpdate> updates_;
  std::vector<size_t> first_views_;
  std::vector<TensorView> views_;
  std::vector<const Packing*> packings_;
  std::vector<uint64_t> packed_firsts_;
  std::vector<double> factors_;
  std::vector<ContributionWeights> weights_;
  std::vector<MutableTensorView> states_;
};

// Applies all batches, or none unless the device fails.
absl::Status ApplyAll(Backend& device, RowBatches& batches);

// Some rows of a key, and where they go, one below the other.
struct RowsToCopy {
  RefPtr<const RowIds> ids;
  MutableTensorView rows;
};

// Copies rows of `stored`, which has `num_rows`, to where they go; both are
// memory of the device.
absl::Status CopyRows(Backend& device, const TensorView& stored,
                      int64_t num_rows, absl::Span<const RowsToCopy> copies);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_ROW_BATCHES_H_
