// SPDX-License-Identifier: BSD-3-Clause
#include "refusal_advice.h"

#include "gaudi/cards.h"
#include "ucx/log.h"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gaudi::uct {

using namespace ucx;

namespace {

/// The address that could not be registered, if that is what the line says.
std::uint64_t refused_address(const char *line) {
    constexpr const char *kAddress = "address=";
    if (!std::strstr(line, "reg_dmabuf_mr("))
        return 0;
    const char *address = std::strstr(line, kAddress);
    return address ? std::strtoull(address + std::strlen(kAddress), nullptr, 16) : 0;
}

void say_what_helps(const void *caller, std::uint64_t address) {
    const auto cards = Cards::get();
    const auto host = Host::of(caller);
    if (cards && host && (*cards)->find(address))
        GAUDI_UCX_LOG(
            **host, ERROR,
            "an RDMA device that takes dma-bufs refuses Gaudi memory at 0x%lx: UCX_GAUDI_COPY_DMABUF=n stages "
            "it through host memory instead",
            static_cast<unsigned long>(address));
}

ucs_log_func_rc_t advise(const char *, unsigned, const char *, ucs_log_level_t level, const ucs_log_component_config *,
                         const char *format, va_list values) noexcept {
    const void *caller = __builtin_return_address(0); // here, before the compiler splits the function
    if (level > UCS_LOG_LEVEL_ERROR)
        return UCS_LOG_FUNC_RC_CONTINUE;
    const int error = errno; // the format may ask for its text, and so does the handler after us
    std::array<char, 512> line{};
    std::vsnprintf(line.data(), line.size(), format, values);
    if (const std::uint64_t address = refused_address(line.data()); address != 0) {
        try {
            say_what_helps(caller, address);
        } catch (...) { // out of memory: UCX's own line must do
        }
    }
    errno = error;
    return UCS_LOG_FUNC_RC_CONTINUE;
}

} // namespace

void RefusalAdvice::begin() {
    const std::lock_guard guard(m_mutex);
    const auto &call = m_host.call();
    if (m_domains++ != 0 || m_depth != 0 || !call.ucs_log_push_handler || !call.ucs_log_pop_handler ||
        !call.ucs_log_num_handlers)
        return;
    const unsigned before = call.ucs_log_num_handlers();
    call.ucs_log_push_handler(advise);
    if (const unsigned now = call.ucs_log_num_handlers(); now == before + 1) // else the stack was full
        m_depth = now;
}

void RefusalAdvice::end() {
    const std::lock_guard guard(m_mutex);
    const auto &call = m_host.call();
    if (--m_domains != 0 || m_depth == 0 || call.ucs_log_num_handlers() != m_depth)
        return;
    call.ucs_log_pop_handler();
    m_depth = 0;
}

} // namespace gaudi::uct
