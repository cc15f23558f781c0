#include "examples/fashion_mnist/progress_display.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tensorkv::fashion_mnist {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

void ProgressDisplay::ShowMessage(const std::string& message) {
  EraseBar();
  out_ << message << std::endl;
}

void ProgressDisplay::ShowProgress(uint32_t epoch, double progress,
                                   double mean_loss) {
  if (!is_terminal_) return;
  const int filled =
      static_cast<int>(std::clamp(progress, 0.0, 1.0) * kBarWidth);
  const std::string bar = absl::StrFormat(
      "%s [%s%s] loss %.2f", Title(epoch), std::string(filled, '#'),
      std::string(kBarWidth - filled, '.'), mean_loss);
  if (bar == bar_) return;
  EraseBar();
  out_ << bar << std::flush;
  bar_ = bar;
}

void ProgressDisplay::ShowEpoch(uint32_t epoch, double mean_loss,
                                double test_accuracy) {
  ShowMessage(absl::StrFormat("%s  loss %.4f  test accuracy %.4f", Title(epoch),
                              mean_loss, test_accuracy));
}

std::string ProgressDisplay::Title(uint32_t epoch) const {
  return absl::StrFormat("epoch %d/%d", epoch, num_epochs_);
}

void ProgressDisplay::EraseBar() {
  if (bar_.empty()) return;
  out_ << '\r' << std::string(bar_.size(), ' ') << '\r';
  bar_.clear();
}

}  // namespace tensorkv::fashion_mnist
