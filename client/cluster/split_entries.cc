#include "client/cluster/split_entries.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

absl::Status WrongShape(const SplitLayout& layout, const Tensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat(
      "key \"", layout.key, "\": expected ",
      Description(layout.dtype, layout.shape), ", got ", tensor.Description()));
}

// Checks that a tensor has as many rows as the key. Errors: InvalidArgument.
absl::Status CheckNumRows(const SplitLayout& layout, const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const bool fits =
      shape.rank() > 0 && shape.dimensions().front() == layout.num_rows();
  return fits ? absl::OkStatus() : WrongShape(layout, tensor);
}

// Returns the rows of one slice.
Tensor SliceOf(const Tensor& tensor, const SplitLayout& layout,
               uint32_t slice) {
  return RowsOf(tensor, layout.FirstRow(slice), layout.FirstRow(slice + 1));
}

// Returns the places in `ids` of the rows that each slice has.
absl::StatusOr<std::vector<std::vector<int64_t>>> PlacesBySlice(
    const RowIds& ids, const SplitLayout& layout) {
  std::vector<std::vector<int64_t>> places(layout.num_slices);
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t row = ids[i];
    if (row >= 0 && row < layout.num_rows()) {
      places[layout.SliceOfRow(row)].push_back(i);
      continue;
    }
    return WithReason(
        absl::InvalidArgumentError(
            absl::StrCat("key \"", layout.key, "\": expected rows below ",
                         layout.num_rows(), ", got ", row)),
        Reason::kRowOutOfRange,
        {{"key", layout.key}, {"row", row}, {"limit", layout.num_rows()}});
  }
  return places;
}

// Returns the ids at those places, as the slice counts its rows.
absl::StatusOr<RefPtr<const RowIds>> IdsInSlice(
    const RowIds& ids, const std::vector<int64_t>& places, int64_t first_row) {
  ASSIGN_OR_RETURN(
      Tensor tensor,
      Tensor::Allocate(DType::kI64, {static_cast<int64_t>(places.size())}));
  for (size_t i = 0; i < places.size(); ++i) {
    tensor.mutable_elements<int64_t>()[i] = ids[places[i]] - first_row;
  }
  return RowIds::Create(std::move(tensor));
}

// Returns those rows of a tensor; a copy where they do not follow one another,
// since a contribution is contiguous.
absl::StatusOr<Tensor> RowsAt(const Tensor& tensor,
                              const std::vector<int64_t>& places) {
  const auto num_rows = static_cast<int64_t>(places.size());
  if (num_rows == 0) return RowsOf(tensor, 0, 0);
  if (places.back() - places.front() == num_rows - 1) {
    return RowsOf(tensor, places.front(), places.back() + 1);
  }
  ASSIGN_OR_RETURN(
      Tensor rows,
      Tensor::Allocate(tensor.dtype(), WithRows(tensor.shape(), num_rows)));
  const size_t row_bytes = RowBytes(tensor.dtype(), tensor.shape());
  for (int64_t i = 0; i < num_rows; ++i) {
    std::memcpy(rows.mutable_data() + i * row_bytes,
                tensor.data() + places[i] * row_bytes, row_bytes);
  }
  return rows;
}

// Appends an entry for each slice, since each waits for a contribution of every
// worker, and means count its weight for all rows.
absl::Status AppendRows(const PushEntry& entry, const SplitLayout& layout,
                        std::vector<PushEntry>& out) {
  const RowIds& ids = *entry.rows;
  ASSIGN_OR_RETURN(const auto places, PlacesBySlice(ids, layout));
  const Shape& shape = entry.tensor.shape();
  if (shape.rank() == 0 || shape.dimensions().front() != ids.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("key \"", layout.key, "\": expected ", ids.size(),
                     " rows, got ", entry.tensor.Description()));
  }
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    PushEntry slice = {.key = layout.NameOf(i), .weight = entry.weight};
    slice.update_all_rows = entry.update_all_rows;
    ASSIGN_OR_RETURN(slice.rows,
                     IdsInSlice(ids, places[i], layout.FirstRow(i)));
    ASSIGN_OR_RETURN(slice.tensor, RowsAt(entry.tensor, places[i]));
    out.push_back(std::move(slice));
  }
  return absl::OkStatus();
}

template <typename Answer>
auto MinVersion(absl::Span<const Answer> answers) {
  return absl::c_min_element(answers,
                             [](const Answer& a, const Answer& b) {
                               return a.version < b.version;
                             })
      ->version;
}

uint32_t MinContributions(absl::Span<const Value> answers) {
  return absl::c_min_element(answers,
                             [](const Value& a, const Value& b) {
                               return a.num_contributions < b.num_contributions;
                             })
      ->num_contributions;
}

// Returns the shape of the rows of slices, one after the other.
absl::StatusOr<Shape> JoinedShape(absl::Span<const Value> answers) {
  const Tensor& first = answers.front().tensor;
  int64_t num_rows = 0;
  for (const Value& answer : answers) {
    const Shape& shape = answer.tensor.shape();
    const bool fits = answer.tensor.dtype() == first.dtype() &&
                      shape.rank() > 0 && first.shape().rank() > 0 &&
                      WithRows(shape, 0) == WithRows(first.shape(), 0);
    if (!fits) {
      return absl::InternalError(
          absl::StrCat("slices of one key: expected ", first.Description(),
                       " with other rows, got ", answer.tensor.Description()));
    }
    num_rows += shape.dimensions().front();
  }
  return WithRows(first.shape(), num_rows);
}

// Checks that each slice answers with as many rows as it was asked for.
absl::Status CheckRows(const SplitEntry& split,
                       absl::Span<const Value> answers) {
  for (size_t i = 0; i < split.rows.size(); ++i) {
    const Tensor& slice = answers[i].tensor;
    const auto expected = static_cast<int64_t>(split.rows[i].size());
    if (slice.shape().rank() > 0 &&
        slice.shape().dimensions().front() == expected) {
      continue;
    }
    return absl::InternalError(absl::StrCat("slice of a key: expected ",
                                            expected, " rows, got ",
                                            slice.Description()));
  }
  return absl::OkStatus();
}

// Puts row i of `from` where places[i] says.
void Scatter(const Tensor& from, const std::vector<int64_t>& places,
             Tensor& to) {
  const size_t row_bytes = RowBytes(to.dtype(), to.shape());
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(to.mutable_data() + places[i] * row_bytes,
                from.data() + i * row_bytes, row_bytes);
  }
}

// Returns the token of a key in slices: that of each slice, after its size in a
// byte.
std::string JoinedToken(absl::Span<const Value> answers) {
  std::string joined;
  for (const Value& answer : answers) {
    const std::string& token = answer.change->token;
    joined.push_back(static_cast<char>(token.size()));
    joined += token;
  }
  return joined;
}

// Returns the tokens of the slices; none if it is no token of so many.
std::vector<std::string> TokensOfSlices(absl::string_view joined,
                                        uint32_t num_slices) {
  std::vector<std::string> tokens;
  while (!joined.empty()) {
    const size_t size = static_cast<unsigned char>(joined.front());
    joined.remove_prefix(1);
    if (size > joined.size()) return {};
    tokens.emplace_back(joined.substr(0, size));
    joined.remove_prefix(size);
  }
  if (tokens.size() != num_slices) return {};
  return tokens;
}

// Returns whether all slices have come with tokens. Where one has not, none is
// shown later, and so all come whole.
bool HaveChanges(absl::Span<const Value> answers) {
  return absl::c_all_of(
      answers, [](const Value& answer) { return answer.change != nullptr; });
}

// Puts a slice that has come whole in its place, unless it is there. Returns
// what has changed of another.
absl::StatusOr<SliceChange> ChangeOfSlice(const Value& answer, Tensor slice) {
  SliceChange change = {.size_bytes = static_cast<uint64_t>(slice.size_bytes()),
                        .unchanged = answer.change->unchanged,
                        .delta = answer.change->delta};
  const Tensor& tensor = answer.tensor;
  if (!answer.is_whole()) {
    change.tensor = tensor;
    return change;
  }
  if (tensor.dtype() != slice.dtype() || tensor.shape() != slice.shape()) {
    return absl::InternalError(absl::StrCat("slice of a key: expected ",
                                            slice.Description(), ", got ",
                                            tensor.Description()));
  }
  if (tensor.data() != slice.data() && tensor.size_bytes() > 0) {
    std::memcpy(slice.mutable_data(), tensor.data(), tensor.size_bytes());
  }
  return change;
}

absl::StatusOr<Value> JoinChanges(const SplitLayout& layout,
                                  absl::Span<const Value> answers,
                                  Tensor whole) {
  Value value = {.version = MinVersion(answers),
                 .num_contributions = MinContributions(answers)};
  auto change = MakeRefCounted<ValueChange>();
  change->token = JoinedToken(answers);
  change->unchanged = absl::c_all_of(
      answers, [](const Value& answer) { return answer.change->unchanged; });
  if (!change->unchanged) {
    for (uint32_t i = 0; i < layout.num_slices; ++i) {
      ASSIGN_OR_RETURN(
          SliceChange of_slice,
          ChangeOfSlice(answers[i], RowsOf(whole, layout.FirstRow(i),
                                           layout.FirstRow(i + 1))));
      change->slices.push_back(std::move(of_slice));
    }
    if (absl::c_all_of(answers, std::mem_fn(&Value::is_whole)))
      change->slices.clear();
    value.tensor = std::move(whole);
  }
  value.change = std::move(change);
  return value;
}

}  // namespace

absl::Status AppendSlices(
    const std::string&, const SplitLayout& layout, SplitEntry&,
    google::protobuf::RepeatedPtrField<std::string>& out) {
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    out.Add(layout.NameOf(i));
  }
  return absl::OkStatus();
}

absl::Status AppendSlices(const InitEntry& entry, const SplitLayout& layout,
                          SplitEntry&, std::vector<InitEntry>& out) {
  RETURN_IF_ERROR(CheckNumRows(layout, entry.tensor));
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    out.push_back({layout.NameOf(i), SliceOf(entry.tensor, layout, i)});
  }
  return absl::OkStatus();
}

absl::Status AppendSlices(const SetStateEntry& entry, const SplitLayout& layout,
                          SplitEntry&, std::vector<SetStateEntry>& out) {
  const Tensor& tensor = entry.tensor;
  // A state may be one number for all of the key.
  const bool is_shared = tensor.shape().rank() == 0;
  if (!is_shared) RETURN_IF_ERROR(CheckNumRows(layout, tensor));
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    out.push_back({layout.NameOf(i), entry.state,
                   is_shared ? tensor : SliceOf(tensor, layout, i)});
  }
  return absl::OkStatus();
}

absl::Status AppendSlices(const GetStateEntry& entry, const SplitLayout& layout,
                          SplitEntry&, std::vector<GetStateEntry>& out) {
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    out.push_back({layout.NameOf(i), entry.state});
  }
  return absl::OkStatus();
}

absl::Status AppendSlices(const PushEntry& entry, const SplitLayout& layout,
                          SplitEntry&, std::vector<PushEntry>& out) {
  if (entry.delta != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key \"", layout.key, "\": is in slices, which take no deltas"));
  }
  if (entry.encoding != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("key \"", layout.key,
                     "\": is in slices, which take no encoded contributions"));
  }
  if (entry.rows != nullptr && !entry.skip) {
    return AppendRows(entry, layout, out);
  }
  if (!entry.skip && entry.tensor.shape() != layout.shape) {
    return WrongShape(layout, entry.tensor);
  }
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    PushEntry slice = {
        .key = layout.NameOf(i), .skip = entry.skip, .weight = entry.weight};
    if (!entry.skip) slice.tensor = SliceOf(entry.tensor, layout, i);
    out.push_back(std::move(slice));
  }
  return absl::OkStatus();
}

absl::Status AppendSlices(const PullEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<PullEntry>& out) {
  std::vector<std::vector<int64_t>> places(layout.num_slices);
  if (entry.rows != nullptr) {
    ASSIGN_OR_RETURN(places, PlacesBySlice(*entry.rows, layout));
  }
  const std::vector<std::string> held =
      TokensOfSlices(entry.held, layout.num_slices);
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    PullEntry slice = {.key = layout.NameOf(i),
                       .min_version = entry.min_version,
                       .rows = entry.rows};
    if (!held.empty()) slice.held = held[i];
    if (entry.rows != nullptr) {
      // An entry that asks for no rows asks whether there is the key.
      if (places[i].empty() && (i > 0 || entry.rows->size() > 0)) continue;
      ASSIGN_OR_RETURN(slice.rows,
                       IdsInSlice(*entry.rows, places[i], layout.FirstRow(i)));
      split.rows.push_back(std::move(places[i]));
    }
    out.push_back(std::move(slice));
  }
  return absl::OkStatus();
}

Version JoinAnswers(const SplitEntry&, absl::Span<const Version> answers) {
  return *absl::c_min_element(answers);
}

PushResult JoinAnswers(const SplitEntry&,
                       absl::Span<const PushResult> answers) {
  PushResult result = answers.front();
  result.token.clear();
  result.version = MinVersion(answers);
  // Where slices are carried, the whole is taken when the last round has any.
  for (const PushResult& answer : answers) {
    result.step = std::max(result.step, answer.step);
  }
  result.repeated = absl::c_all_of(
      answers, [](const PushResult& answer) { return answer.repeated; });
  return result;
}

KeyStatus JoinAnswers(const SplitEntry& split,
                      absl::Span<const KeyStatus* const> answers) {
  KeyStatus whole = *answers.front();
  const absl::Span<const int64_t> dimensions = split.layout->shape.dimensions();
  whole.set_key(split.layout->key);
  whole.mutable_shape()->Assign(dimensions.begin(), dimensions.end());
  whole.clear_digest();
  for (const KeyStatus* const slice : answers.subspan(1)) {
    whole.set_version(std::min(whole.version(), slice->version()));
    whole.set_value_bytes(whole.value_bytes() + slice->value_bytes());
    whole.set_state_bytes(whole.state_bytes() + slice->state_bytes());
    whole.set_update_count(
        std::min(whole.update_count(), slice->update_count()));
  }
  return whole;
}

absl::StatusOr<Value> JoinAnswers(const SplitEntry& split,
                                  absl::Span<const Value> answers,
                                  Tensor whole) {
  if (HaveChanges(answers)) {
    return JoinChanges(*split.layout, answers, std::move(whole));
  }
  RETURN_IF_ERROR(CheckRows(split, answers));
  const Tensor& first = answers.front().tensor;
  const Version version = MinVersion(answers);
  const uint32_t num_contributions = MinContributions(answers);
  // A state that is one number is so in every slice.
  if (first.shape().rank() == 0) {
    return Value{version, first, num_contributions};
  }
  ASSIGN_OR_RETURN(const Shape shape, JoinedShape(answers));
  const bool fits = whole.has_data() && whole.dtype() == first.dtype() &&
                    whole.shape() == shape;
  if (!fits) {
    ASSIGN_OR_RETURN(whole, Tensor::Allocate(first.dtype(), shape));
  }
  char* out = whole.mutable_data();
  for (size_t i = 0; i < answers.size(); ++i) {
    const Tensor& slice = answers[i].tensor;
    if (!split.rows.empty()) {
      Scatter(slice, split.rows[i], whole);
    } else if (slice.data() != out && slice.num_elements() > 0) {
      // It came in an unusual form, or is a state.
      std::memcpy(out, slice.data(), slice.size_bytes());
    }
    out += slice.size_bytes();
  }
  return Value{version, std::move(whole), num_contributions};
}

std::vector<Destination> SliceDestinations(const SplitLayout& layout,
                                           Tensor& whole) {
  const size_t row_bytes = RowBytes(whole.dtype(), whole.shape());
  std::vector<Destination> destinations;
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    const int64_t first = layout.FirstRow(i);
    const int64_t num_rows = layout.FirstRow(i + 1) - first;
    destinations.push_back(
        {whole.dtype(), WithRows(whole.shape(), num_rows),
         absl::MakeSpan(whole.mutable_data() + first * row_bytes,
                        num_rows * row_bytes)});
  }
  return destinations;
}

}  // namespace tensorkv
