// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"

#include "os/format.h"
#include "thunk/dl_handle.h"

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace gaudi::cli::bench {

bool Clock::is_virtual_named() {
    const char *pace = std::getenv("SOFTGAUDI_PACE");
    return pace && std::string_view(pace).starts_with("virtual:");
}

OrSentence<Clock> Clock::open_virtual(Card &card) {
    const auto session = card.open();
    if (!session)
        return Sentence(session.error().text);
    auto library = thunk::DlHandle::open(card.library().path());
    if (!library)
        return Sentence(library.error().text);
    Clock clock;
    clock.m_read = reinterpret_cast<decltype(clock.m_read)>(library->symbol("hlthunk_get_time_sync_info"));
    if (!clock.m_read)
        return Sentence(
            os::format("{} has no hlthunk_get_time_sync_info, by which its clock is read", card.library().path()));
    library->keep();
    clock.m_fd = (*session)->device().fd();
    return clock;
}

double Clock::now_us() const {
    if (!m_read)
        return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
    hlthunk_time_sync_info now{};
    return m_read(m_fd, &now) == 0 ? static_cast<double>(now.device_time) / 1000
                                   : 0; // a lost card fails its copies too
}

} // namespace gaudi::cli::bench
