// The files in page/, as the build puts them into the program.

#ifndef TENSORKV_SERVICE_STATUS_PAGE_FILES_H_
#define TENSORKV_SERVICE_STATUS_PAGE_FILES_H_

#include "absl/strings/string_view.h"

namespace tensorkv {

// The contents of status.html, status.css and status.js.
extern const absl::string_view kStatusHtml;
extern const absl::string_view kStatusCss;
extern const absl::string_view kStatusJs;

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_PAGE_FILES_H_
