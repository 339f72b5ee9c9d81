// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gaudi::uct {

using namespace ucx;

namespace {

constexpr const char *kCompletions[] = {"flag", "driver", "word", "auto", nullptr}; // word: the old name of flag

double number(const void *value) { return *static_cast<const double *>(value); }

// UCX plans with these numbers: a time or a rate that is not finite makes its choices undefined.
bool is_size(const char *text, const void *) { return std::strchr(text, '-') == nullptr; } // -1 is read as "inf"
bool is_time(const char *, const void *value) { return std::isfinite(number(value)) && number(value) >= 0; }
bool is_switch(const char *, const void *value) {
    const auto read = *static_cast<const ucs_ternary_auto_value_t *>(value);
    return read == UCS_YES || read == UCS_NO;
}
bool is_rate(const char *, const void *value) { return std::isfinite(number(value)) && number(value) > 0; }

} // namespace

ConfigTables::ConfigTables(const Host &host)
    : m_size{host.memunits_parser(), is_size, "size, not negative: <number>[b|kb|mb|gb], inf or auto"},
      m_time{host.time_parser(), is_time, "time, not negative: <number>[m|s|ms|us|ns]"},
      m_rate{host.bandwidth_parser(), is_rate, "bandwidth above 0: <number>[K|M|G|T]B|b[[p|/]s]"},
      m_switch{host.ternary_parser(), is_switch, "y or n"},
      m_directions{{{"down", "host memory to a card", offsetof(IfaceConfig, bandwidth.down)},
                    {"up", "a card to host memory", offsetof(IfaceConfig, bandwidth.up)},
                    {"card", "within a card", offsetof(IfaceConfig, bandwidth.on_card)},
                    {}}},
      m_bandwidth{parser_of(m_rate), m_directions.data()} {
    // The parser of keys adds its own offset to the row's.
    for (ucs_config_key_field &key : m_directions)
        if (key.name)
            key.offset -= offsetof(IfaceConfig, bandwidth);

    process = {{
        {"STATS", "n",
         "Whether the process prints a summary of its copies, memory and errors on each card when it exits, on stderr.",
         offsetof(ProcessConfig, stats), parser_of(m_switch)},
        {},
    }};
    md = {{
        {"", "", nullptr, 0, host.table_parser(host.call().uct_md_config_table)},
        {"DEVICE", "auto",
         "The card to allocate on when the program names none: a module id, as N or module:N, or a bus id.\n"
         "N is an index of GAUDI_MAPPING_TABLE where that is set. auto: a card that this process has open, else the "
         "one\n"
         "HLS_MODULE_ID names, else the first of HABANA_VISIBLE_MODULES (default: of all) that is free.",
         offsetof(MdConfig, device), host.string_parser()},
        {"MAX_MEMORY", "inf", "The most memory to take of each card.", offsetof(MdConfig, max_memory),
         parser_of(m_size)},
        {"DMABUF", "try",
         "Whether Gaudi memory is offered to RDMA devices through dma-buf (zero copy).\n"
         "try: where the driver exports it. n: everything is staged through host memory.",
         offsetof(MdConfig, dmabuf), host.ternary_parser()},
        {"OPEN_TIMEOUT", "15s",
         "How long to wait for cards that are being reset, for all cards together. 0: such cards are refused at once.",
         offsetof(MdConfig, open_timeout), parser_of(m_time)},
        {"MAX_MAPPED_HOST", "auto",
         "The most host memory to keep mapped into cards, where its pages are pinned, for all cards together.\n"
         "auto: half of the machine's memory. Beyond it, memory that no copy used for the longest time is unmapped.",
         offsetof(MdConfig, max_mapped_host), parser_of(m_size)},
        {},
    }};
    const std::array<ucs_config_field, 5> rows = {{
        {"", "", nullptr, 0, host.table_parser(host.call().uct_iface_config_table)},
        {"COMPLETION", "auto",
         "How the end of a copy is noticed. flag: the card writes a completion flag to host memory; a self-test checks "
         "its\n"
         "order when the card's engine starts, and the driver is asked where that fails. driver: the driver is always "
         "asked.\n"
         "auto: flag where a record of ucx_gaudi verify says that its order held under load on such a card with this "
         "driver\n"
         "and firmware, else driver. ucx_gaudi info shows which.",
         offsetof(IfaceConfig, completion), host.enum_parser(kCompletions)},
        {"BW", "down:24000MBs,up:24000MBs,card:400000MBs",
         "Bandwidth of copies that UCX plans with, for each direction.", offsetof(IfaceConfig, bandwidth),
         host.key_value_parser(&m_bandwidth)},
        {"LATENCY", "6us", "Latency of a copy that UCX plans with.", offsetof(IfaceConfig, latency), parser_of(m_time)},
        {"OVERHEAD", "1us", "Time to start a copy that UCX plans with.", offsetof(IfaceConfig, overhead),
         parser_of(m_time)},
    }};
    cpy = {};
    gdr = {};
    std::copy(rows.begin(), rows.end(), cpy.begin());
    std::copy(rows.begin(), rows.end(), gdr.begin());
    m_framework[0] = {
        "FRAMEWORK", "n",
        "Whether SynapseAI will be loaded and open its card after UCX has started, as with MPI_Init before import "
        "torch.\n"
        "y: copies are offered to UCX although nobody can make them yet on a card that only SynapseAI copies on "
        "(Gaudi3);\n"
        "UCX ends the process when one is needed before SynapseAI has the card. n: there they are offered only where\n"
        "SynapseAI is loaded before UCX starts.",
        offsetof(IfaceConfig, framework), parser_of(m_switch)};
    cpy[rows.size()] = m_framework[0];
    gdr[rows.size()] = {"DEVICE_ID", "0", "The same as UCX_GAUDI_COPY_DEVICE=module:N, for existing launch lines.",
                        offsetof(IfaceConfig, device_id), host.uint_parser()};
}

bool ConfigTables::wants_summary(const Host &host) const {
    std::array<ucs_config_field, 2> rows = process;
    ucs_config_global_list_entry table{"GAUDI", kProcessPrefix, rows.data(), sizeof(ProcessConfig), {}, 0};
    ProcessConfig config{};
    const ucs_status_t status = host.call().ucs_config_parser_fill_opts(&config, &table, "UCX_", 1);
    return status == UCS_OK && config.stats == UCS_YES;
}

bool ConfigTables::expects_framework(const Host &host) const {
    std::array<ucs_config_field, 2> rows = m_framework; // the other rows of the transport are not the domain's to judge
    ucs_config_global_list_entry table{"GAUDI_CPY transport", kCpyPrefix, rows.data(), sizeof(IfaceConfig), {}, 0};
    IfaceConfig config{};
    // A value that is neither y nor n: UCX logs it, and refuses it once more when it reads the transport's settings.
    const ucs_status_t status = host.call().ucs_config_parser_fill_opts(&config, &table, "UCX_", 1);
    return status == UCS_OK && config.framework == UCS_YES;
}

} // namespace gaudi::uct
