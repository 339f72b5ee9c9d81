// SPDX-License-Identifier: BSD-3-Clause
// fmt, compiled once: with its shared library every application would need that too, and header-only it takes each of our
// files seconds to compile.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// The templates that its other headers leave to the library, as far as we use them.
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;

} // namespace detail
FMT_END_NAMESPACE
