// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"

namespace gaudi::ucx {

// `ucx_info -f` shows the text as the syntax of the value.
#define GAUDI_UCX_PARSER(type, clone, text)                                                                            \
    {                                                                                                                  \
        m_functions.ucs_config_sscanf_##type, m_functions.ucs_config_sprintf_##type,                                   \
            m_functions.ucs_config_clone_##clone, m_functions.ucs_config_release_nop,                                  \
            m_functions.ucs_config_help_generic, m_functions.ucs_config_doc_nop, static_cast<const void *>(text)       \
    }

ucs_config_parser Host::string_parser() const noexcept {
    ucs_config_parser parser = GAUDI_UCX_PARSER(string, string, "string");
    parser.release = m_functions.ucs_config_release_string;
    return parser;
}

ucs_config_parser Host::uint_parser() const noexcept { return GAUDI_UCX_PARSER(uint, uint, "unsigned integer"); }

ucs_config_parser Host::ternary_parser() const noexcept {
    return {m_functions.ucs_config_sscanf_ternary,
            m_functions.ucs_config_sprintf_ternary_auto, // UCX writes both kinds of ternary by this one
            m_functions.ucs_config_clone_int,
            m_functions.ucs_config_release_nop,
            m_functions.ucs_config_help_generic,
            m_functions.ucs_config_doc_nop,
            "<yes|no|try>"};
}

ucs_config_parser Host::memunits_parser() const noexcept {
    return GAUDI_UCX_PARSER(memunits, ulong, "size: <number>[b|kb|mb|gb], inf or auto");
}

ucs_config_parser Host::time_parser() const noexcept {
    return GAUDI_UCX_PARSER(time, double, "time: <number>[m|s|ms|us|ns]");
}

ucs_config_parser Host::bandwidth_parser() const noexcept {
    return GAUDI_UCX_PARSER(bw, double, "bandwidth: <number>[K|M|G|T]B|b[[p|/]s] or auto");
}

ucs_config_parser Host::enum_parser(const char *const *names) const noexcept {
    ucs_config_parser parser = GAUDI_UCX_PARSER(enum, uint, names);
    parser.help = m_functions.ucs_config_help_enum;
    return parser;
}

#undef GAUDI_UCX_PARSER

ucs_config_parser Host::key_value_parser(const ucs_config_key_value_param *param) const noexcept {
    return {m_functions.ucs_config_sscanf_key_value,
            m_functions.ucs_config_sprintf_key_value,
            m_functions.ucs_config_clone_key_value,
            m_functions.ucs_config_release_key_value,
            m_functions.ucs_config_help_key_value,
            m_functions.ucs_config_doc_key_value,
            param};
}

ucs_config_parser Host::table_parser(const ucs_config_field *table) const noexcept {
    return {m_functions.ucs_config_sscanf_table,
            nullptr, // UCX writes a table row by row
            m_functions.ucs_config_clone_table,
            m_functions.ucs_config_release_table,
            m_functions.ucs_config_help_table,
            m_functions.ucs_config_doc_nop,
            table};
}

} // namespace gaudi::ucx
