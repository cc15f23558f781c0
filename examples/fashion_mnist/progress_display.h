// Shows a person how a training goes.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_PROGRESS_DISPLAY_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_PROGRESS_DISPLAY_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace tensorkv::fashion_mnist {

// Writes a line per epoch and, on a terminal, a bar for the epoch under way.
// Not thread-safe.
class ProgressDisplay {
 public:
  // `out` must outlive this object.
  ProgressDisplay(std::ostream& out, bool is_terminal, uint32_t num_epochs)
      : out_(out), is_terminal_(is_terminal), num_epochs_(num_epochs) {}

  // A line of its own.
  void ShowMessage(const std::string& message);

  // Draws the bar of `epoch`. `progress` is from 0 to 1.
  void ShowProgress(uint32_t epoch, double progress, double mean_loss);

  // Puts the epoch's line in the place of its bar.
  void ShowEpoch(uint32_t epoch, double mean_loss, double test_accuracy);

 private:
  std::string Title(uint32_t epoch) const;
  void EraseBar();

  std::ostream& out_;
  const bool is_terminal_;
  const uint32_t num_epochs_;
  std::string bar_;  // as drawn; empty when there is none
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_PROGRESS_DISPLAY_H_
