// SPDX-License-Identifier: BSD-3-Clause
// The clock that transfers are timed by: the host's. Under a virtual pace of softgaudi the host's time says nothing, and
// the clock is the virtual one, which softgaudi reports as the time of its cards.
#pragma once

#include "cli/sentence.h"
#include "gaudi/card/card.h"

namespace gaudi::cli::bench {

class Clock {
public:
    /// The host's.
    Clock() = default;
    /// The virtual one. Opens the card, whose calls read it.
    static OrSentence<Clock> open_virtual(Card &card);
    /// Whether SOFTGAUDI_PACE names a virtual clock.
    static bool is_virtual_named();

    double now_us() const;

private:
    decltype(&hlthunk_get_time_sync_info) m_read = nullptr;
    int m_fd = -1; // of the card's session
};

} // namespace gaudi::cli::bench
