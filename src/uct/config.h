// SPDX-License-Identifier: BSD-3-Clause
// What users can set, as rows of UCX's own tables: `ucx_info -f` shows them. The tables are made at load, of the
// parsers of the UCX that loaded the module.
#pragma once

#include "ucx/checked_parser.h"
#include "ucx/host.h"

#include <array>
#include <cstddef>

namespace gaudi::uct {

using thunk::Error;
using thunk::Result;

inline constexpr const char *kComponentName = "gaudi_copy";
inline constexpr const char *kCpyPrefix = "GAUDI_CPY_";
inline constexpr const char *kProcessPrefix = "GAUDI_";

struct MdConfig {
    char super; // filled by UCX's own table of memory domains
    char *device;
    std::size_t max_memory;
    ucx::ucs_ternary_auto_value_t dmabuf;
    double open_timeout; // seconds
    std::size_t max_mapped_host;
};

/// Settings of the process, whatever domains and interfaces it has.
struct ProcessConfig {
    ucx::ucs_ternary_auto_value_t stats; // yes or no
};

struct IfaceConfig {
    ucx::uct_iface_config super;
    unsigned completion;
    struct {
        double down, up, on_card;
    } bandwidth;
    double latency;
    double overhead;
    ucx::ucs_ternary_auto_value_t framework; // yes or no; read by the domain
    unsigned device_id;                      // accepted for the sake of old launch lines, read by the domain
};

enum Completion : unsigned { kByFlag = 0, kByDriver = 1, kByWord = 2, kByRecord = 3 };

/// The tables of one UCX.
class ConfigTables {
public:
    explicit ConfigTables(const ucx::Host &host);
    ConfigTables(const ConfigTables &) = delete;
    ConfigTables &operator=(const ConfigTables &) = delete;

    /// The user's UCX_GAUDI_CPY_FRAMEWORK, of the environment or ucx.conf. UCX reads the settings of a transport only after
    /// the domain has said what it offers, so the domain has this one read before.
    bool expects_framework(const ucx::Host &host) const;
    /// The user's UCX_GAUDI_STATS.
    bool wants_summary(const ucx::Host &host) const;

    std::array<ucx::ucs_config_field, 2> process;
    std::array<ucx::ucs_config_field, 7> md;
    std::array<ucx::ucs_config_field, 7> cpy; // transport gaudi_cpy
    std::array<ucx::ucs_config_field, 7> gdr; // the same under the name gaudi_gdr

private:
    std::array<ucx::ucs_config_field, 2> m_framework{}; // the row FRAMEWORK of gaudi_cpy alone
    ucx::CheckedParser m_size, m_time, m_rate, m_switch;
    std::array<ucx::ucs_config_key_field, 4> m_directions;
    ucx::ucs_config_key_value_param m_bandwidth;
};

} // namespace gaudi::uct
