// SPDX-License-Identifier: BSD-3-Clause
#include "current_exception.h"

#include "os/format.h"

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

namespace gaudi::thunk {
namespace {

int code_of(const std::system_error &error) {
    const std::error_code &code = error.code();
    const bool is_errno = code.category() == std::generic_category() || code.category() == std::system_category();
    return is_errno ? code.value() : EIO;
}

/// Names the operation, unless there is no memory left even for that sentence.
Error describe(int code, const char *operation, const char *why) noexcept {
    try {
        return {code, operation, os::format("{} failed: {}", operation, why)};
    } catch (...) {
        return {code, operation, "out of memory"}; // short enough for std::string to allocate nothing
    }
}

} // namespace

Error current_exception_error(const char *operation) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return describe(ENOMEM, operation, "out of memory");
    } catch (const std::system_error &error) {
        return describe(code_of(error), operation, error.what());
    } catch (const std::exception &error) {
        return describe(EIO, operation, error.what());
    } catch (...) {
        return describe(EIO, operation, "unknown error");
    }
}

} // namespace gaudi::thunk
