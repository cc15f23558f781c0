// Tables of text.

#ifndef TENSORKV_BENCH_HARNESS_TEXT_TABLE_H_
#define TENSORKV_BENCH_HARNESS_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace tensorkv::bench {

// Rows of cells under a header. Readable as it is, and as Markdown.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);

  // REQUIRES: as many cells as the header has.
  void AddRow(std::vector<std::string> cells);

  bool empty() const { return rows_.size() <= 1; }

  // Columns padded to one width; the first is aligned left, the others right.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_TEXT_TABLE_H_
