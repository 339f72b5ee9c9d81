// SPDX-License-Identifier: BSD-3-Clause
// Names of enumerators, and rates.
#include "api.h"

#include <algorithm>
#include <array>

using namespace softhca;

namespace {

template <size_t N>
const char *pick(const std::array<const char *, N> &names, int value) {
    return value >= 0 && static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : "unknown";
}

struct Rate {
    ibv_rate rate;
    int mult; // multiple of 2.5 Gb/s; -1 for unknown
    int mbps;
};

constexpr std::array kRates = {
    Rate{IBV_RATE_2_5_GBPS, 1, 2500},     Rate{IBV_RATE_5_GBPS, 2, 5000},         Rate{IBV_RATE_10_GBPS, 4, 10000},
    Rate{IBV_RATE_14_GBPS, -1, 14062},    Rate{IBV_RATE_20_GBPS, 8, 20000},       Rate{IBV_RATE_25_GBPS, -1, 25781},
    Rate{IBV_RATE_28_GBPS, -1, 28125},    Rate{IBV_RATE_30_GBPS, 12, 30000},      Rate{IBV_RATE_40_GBPS, 16, 40000},
    Rate{IBV_RATE_50_GBPS, 20, 53125},    Rate{IBV_RATE_56_GBPS, -1, 56250},      Rate{IBV_RATE_60_GBPS, 24, 60000},
    Rate{IBV_RATE_80_GBPS, 32, 80000},    Rate{IBV_RATE_100_GBPS, -1, 103125},    Rate{IBV_RATE_112_GBPS, -1, 112500},
    Rate{IBV_RATE_120_GBPS, 48, 120000},  Rate{IBV_RATE_168_GBPS, -1, 168750},    Rate{IBV_RATE_200_GBPS, -1, 206250},
    Rate{IBV_RATE_300_GBPS, -1, 309375},  Rate{IBV_RATE_400_GBPS, 160, 425000},   Rate{IBV_RATE_600_GBPS, 240, 637500},
    Rate{IBV_RATE_800_GBPS, 320, 850000}, Rate{IBV_RATE_1200_GBPS, 480, 1275000},
};

template <class Fits>
const Rate *find_rate(Fits fits) {
    const auto *found = std::find_if(kRates.begin(), kRates.end(), fits);
    return found == kRates.end() ? nullptr : found;
}

} // namespace

SOFTHCA_API const char *ibv_node_type_str(ibv_node_type type) {
    return pick<8>({"unknown", "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router", "iWARP NIC",
                    "usNIC", "usNIC UDP", "unspecified"},
                   type);
}

SOFTHCA_API const char *ibv_port_state_str(ibv_port_state state) {
    return pick<6>({"no state change (NOP)", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}, state);
}

SOFTHCA_API const char *ibv_event_type_str(ibv_event_type event) {
    return pick<20>({"CQ error",
                     "local work queue catastrophic error",
                     "invalid request local work queue error",
                     "local access violation work queue error",
                     "communication established",
                     "send queue drained",
                     "path migrated",
                     "path migration request error",
                     "local catastrophic error",
                     "port active",
                     "port error",
                     "LID change",
                     "P_Key change",
                     "SM change",
                     "SRQ catastrophic error",
                     "SRQ limit reached",
                     "last WQE reached",
                     "client reregistration",
                     "GID table change",
                     "WQ fatal"},
                    event);
}

SOFTHCA_API const char *ibv_wc_status_str(ibv_wc_status status) {
    return pick<24>({"success",
                     "local length error",
                     "local QP operation error",
                     "local EE context operation error",
                     "local protection error",
                     "Work Request Flushed Error",
                     "memory management operation error",
                     "bad response error",
                     "local access error",
                     "remote invalid request error",
                     "remote access error",
                     "remote operation error",
                     "transport retry counter exceeded",
                     "RNR retry counter exceeded",
                     "local RDD violation error",
                     "remote invalid RD request",
                     "aborted error",
                     "invalid EE context number",
                     "invalid EE context state",
                     "fatal error",
                     "response timeout error",
                     "general error",
                     "TM error",
                     "TM software rendezvous"},
                    status);
}

SOFTHCA_API int ibv_rate_to_mult(ibv_rate rate) {
    const Rate *known = find_rate([&](const Rate &entry) { return entry.rate == rate; });
    return known ? known->mult : -1;
}

SOFTHCA_API ibv_rate mult_to_ibv_rate(int mult) {
    const Rate *known = find_rate([&](const Rate &entry) { return entry.mult == mult && mult > 0; });
    return known ? known->rate : IBV_RATE_MAX;
}

SOFTHCA_API int ibv_rate_to_mbps(ibv_rate rate) {
    const Rate *known = find_rate([&](const Rate &entry) { return entry.rate == rate; });
    return known ? known->mbps : -1;
}

SOFTHCA_API ibv_rate mbps_to_ibv_rate(int mbps) {
    const Rate *known = find_rate([&](const Rate &entry) { return entry.mbps == mbps; });
    return known ? known->rate : IBV_RATE_MAX;
}
