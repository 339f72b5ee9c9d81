// SPDX-License-Identifier: BSD-3-Clause
#include "replay_library.h"

#include "os/format.h"
#include "thunk/library.h"

#include <dlfcn.h>

#include <cerrno>
#include <type_traits>
#include <utility>

namespace gaudi::cli {
namespace {

template <class T>
T from_word(std::uint64_t word) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<T>(word);
    else
        return static_cast<T>(word);
}

template <class R, class... A, std::size_t... I>
std::uint64_t invoke(R (*function)(A...), [[maybe_unused]] const std::uint64_t *words, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
        function(from_word<A>(words[I])...);
        return 0;
    } else if constexpr (std::is_pointer_v<R>) {
        return reinterpret_cast<std::uint64_t>(function(from_word<A>(words[I])...));
    } else {
        return static_cast<std::uint64_t>(function(from_word<A>(words[I])...));
    }
}

template <class R, class... A>
std::uint64_t invoke_any(R (*function)(A...), const std::uint64_t *words) {
    return invoke(function, words, std::index_sequence_for<A...>());
}

using Invoke = std::uint64_t (*)(void *, const std::uint64_t *);
constexpr Invoke kInvoke[] = {
#define GAUDI_REPLAY_INVOKE(name, result, parameters, ...)                                                             \
    [](void *function, const std::uint64_t *words) {                                                                   \
        return invoke_any(reinterpret_cast<result(*) parameters>(function), words);                                    \
    },
    GAUDI_RECORD_CALLS(GAUDI_REPLAY_INVOKE)
#undef GAUDI_REPLAY_INVOKE
};

} // namespace

OrSentence<ReplayLibrary> ReplayLibrary::find() {
    const auto found = thunk::Library::find();
    if (!found)
        return Sentence(found.error().text);
    ReplayLibrary library;
    library.m_path = (*found)->path();
    void *handle = ::dlopen(library.m_path.c_str(), RTLD_NOW); // loaded already, and kept until exit
    if (!handle)
        return Sentence(os::format("cannot load {}: {}", library.m_path, ::dlerror()));
    for (std::size_t i = 0; i < record::kCallCount; ++i)
        library.m_functions[i] = ::dlsym(handle, os::format("hlthunk_{}", record::kCalls[i].name).c_str());
    return library;
}

ReplayLibrary::Answer ReplayLibrary::call(record::Function function, std::span<const std::uint64_t> words) const {
    const auto index = static_cast<std::size_t>(function);
    errno = 0;
    const std::uint64_t result = kInvoke[index](m_functions[index], words.data());
    return {result, errno};
}

} // namespace gaudi::cli
