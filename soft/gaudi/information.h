// SPDX-License-Identifier: BSD-3-Clause
// The information that a card reports. Figures that a real card measures (clock, power, utilisation) follow the
// modelled work, so that monitoring programs see them change.
#pragma once

#include "card.h"

namespace softgaudi {

hlthunk_hw_ip_info describe(const Card &card);

// All of these need the card's lock.
hlthunk_dram_usage_info dram_usage(Card &card, bool control);
hlthunk_open_stats_info open_stats(Card &card);
hlthunk_engines_idle_info engines_idle(Card &card);
hlthunk_time_sync_info time_sync(const Card &card);
hlthunk_pci_counters_info pci_counters(Card &card);
hlthunk_sync_manager_info sync_manager(uint32_t dcore);
inline constexpr uint32_t kPlls = 12;
hlthunk_pll_frequency_info pll_frequency(uint32_t index);
uint64_t energy_mj(Card &card);
uint64_t power_mw(Card &card);
uint32_t clock_mhz(Card &card);
inline constexpr uint32_t kMaxClockMhz = 1650;
uint32_t utilization_percent(Card &card);

} // namespace softgaudi
