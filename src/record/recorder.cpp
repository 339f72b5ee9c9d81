// SPDX-License-Identifier: BSD-3-Clause
// The exported functions: each hands its call on to the real libhl-thunk and records it.
#include "real.h"
#include "recorded_call.h"
#include "writer.h"

#include <array>
#include <cerrno>
#include <type_traits>

namespace gaudi::record {
namespace {

template <class T>
std::uint64_t to_word(T value) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<std::uint64_t>(value);
    else
        return static_cast<std::uint64_t>(value);
}

/// The failure of a function that the real library lacks: 0 for handles, addresses and pointers, else -ENOSYS.
template <class R>
R lacking() {
    errno = ENOSYS;
    if constexpr (std::is_same_v<R, int>)
        return -ENOSYS;
    else if constexpr (std::is_same_v<R, hlthunk_device_name>)
        return HLTHUNK_DEVICE_INVALID;
    else
        return R();
}

template <Function kFunction, class R, class... A>
R forward(A... arguments) noexcept {
    const int before = errno;
    auto *const real = reinterpret_cast<R (*)(A...)>(real_function(kFunction));
    const Inside inside;
    if (!real || !inside.first() || !is_recording()) {
        errno = before;
        return real ? real(arguments...) : lacking<R>();
    }
    const std::array<std::uint64_t, sizeof...(A)> words = {to_word(arguments)...};
    RecordedCall call(kFunction, words);
    errno = before; // what the recorder did must not show
    if constexpr (std::is_void_v<R>) {
        real(arguments...);
        const int after = errno;
        call.finish(0, after);
        errno = after;
    } else {
        const R result = real(arguments...);
        const int after = errno;
        call.finish(to_word(result), after);
        errno = after;
        return result;
    }
}

} // namespace
} // namespace gaudi::record

/// Deduces the parameters of a function from its declaration, so that forward() has exactly those.
template <gaudi::record::Function kFunction, class R, class... A>
static constexpr auto forwarder(R (*)(A...)) {
    return &gaudi::record::forward<kFunction, R, A...>;
}

#define GAUDI_RECORD_DECLARE(name, result, parameters, ...) extern "C" result hlthunk_##name parameters;
GAUDI_RECORD_NEWER_CALLS(GAUDI_RECORD_DECLARE)

#define GAUDI_RECORD_EXPORT(name, result, parameters, arguments, ...)                                                  \
    extern "C" __attribute__((visibility("default"))) result hlthunk_##name parameters {                               \
        return forwarder<gaudi::record::Function::name>(&hlthunk_##name) arguments;                                    \
    }
GAUDI_RECORD_CALLS(GAUDI_RECORD_EXPORT)
