// SPDX-License-Identifier: BSD-3-Clause
#include "checked_parser.h"

#include <cstring>

namespace gaudi::ucx {
namespace {

const CheckedParser &checked(const void *arg) noexcept { return *static_cast<const CheckedParser *>(arg); }

int read(const char *text, void *value, const void *arg) noexcept {
    const auto &[inner, accepts, syntax] = checked(arg);
    return inner.read(text, value, inner.arg) == 1 && accepts(text, value) ? 1 : 0;
}

int write(char *text, std::size_t size, const void *value, const void *arg) noexcept {
    return checked(arg).inner.write(text, size, value, checked(arg).inner.arg);
}

ucs_status_t clone(const void *source, void *target, const void *arg) noexcept {
    return checked(arg).inner.clone(source, target, checked(arg).inner.arg);
}

void release(void *value, const void *arg) noexcept { checked(arg).inner.release(value, checked(arg).inner.arg); }

void help(char *text, std::size_t size, const void *arg) noexcept {
    if (size == 0)
        return;
    std::strncpy(text, checked(arg).syntax, size - 1);
    text[size - 1] = '\0';
}

void doc(ucs_string_buffer *text, const void *arg) noexcept { checked(arg).inner.doc(text, checked(arg).inner.arg); }

} // namespace

ucs_config_parser parser_of(const CheckedParser &checked) noexcept {
    return {read, write, clone, release, help, doc, &checked};
}

} // namespace gaudi::ucx
