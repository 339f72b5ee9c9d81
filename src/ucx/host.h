// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "functions.h"
#include "thunk/error.h"

namespace gaudi::ucx {

using thunk::Error;
using thunk::Result;

struct Version {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
};

// One UCX in this process: the functions and data of that very UCX, whatever its files are called and however many
// other UCX there are. Modules call back after everything else is gone, so a Host lives until the process ends.
class Host {
public:
    // The Host of the UCX whose libucs holds the code at `caller`; the same one for the same UCX.
    static Result<Host *> of(const void *caller);

    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    // Finds the libuct that works on this libucs; until then the uct_* functions are nullptr. A UCX may load a module
    // before, or without, its libuct.
    Result<void> find_uct();

    // True for the first who asks: a UCX gets our component once, under however many names it finds the module.
    bool claim_uct() noexcept { return !m_uct_claimed.exchange(true); }
    bool claim_ucm() noexcept { return !m_ucm_claimed.exchange(true); }

    const Functions &call() const noexcept { return m_functions; }

    // Only libucp knows the version, and not every program has it loaded.
    std::optional<Version> version() const;

    // "UCX 1.22.0 (/usr/lib/libucs.so.0)"
    std::string name() const;

    bool log_enabled(ucs_log_level_t level) const noexcept {
        return level <= m_functions.ucs_global_opts->log_component.log_level;
    }

    // In UCX's own log, with UCX's own filters. GAUDI_UCX_LOG of log.h fills in the place.
    [[gnu::format(printf, 6, 7)]] void log(ucs_log_level_t level, const char *file, unsigned line, const char *function,
                                           const char *format, ...) const noexcept;

    // Parsers for rows of a configuration table, which is made at load because they are this UCX's functions.
    ucs_config_parser string_parser() const noexcept;    // char *, which UCX frees
    ucs_config_parser uint_parser() const noexcept;      // unsigned
    ucs_config_parser ternary_parser() const noexcept;   // ucs_ternary_auto_value_t: yes, no, try
    ucs_config_parser memunits_parser() const noexcept;  // std::size_t; inf and auto are UCS_MEMUNITS_*
    ucs_config_parser time_parser() const noexcept;      // double, seconds
    ucs_config_parser bandwidth_parser() const noexcept; // double, bytes per second; auto is UCS_CONFIG_DBL_AUTO
    // unsigned; `names` ends with nullptr and lives as long as the table
    ucs_config_parser enum_parser(const char *const *names) const noexcept;
    // one value per key, at the offsets of the keys; `param` lives as long as the table
    ucs_config_parser key_value_parser(const ucs_config_key_value_param *param) const noexcept;
    // for the row that puts another table into this one
    ucs_config_parser table_parser(const ucs_config_field *table) const noexcept;

    // Memory that UCX frees with ucs_free, zeroed: `count` elements of T. nullptr when there is none.
    template <class T>
    T *allocate(std::size_t count, const char *what) const noexcept {
        return static_cast<T *>(m_functions.ucs_calloc(count, sizeof(T), what));
    }

private:
    Host(Host *next, void *ucs, const Functions &functions, std::string ucs_path)
        : m_next(next), m_ucs(ucs), m_functions(functions), m_ucs_path(std::move(ucs_path)) {}

    Host *m_next; // all Hosts form a list, which also keeps them reachable for leak checkers
    void *m_ucs;  // handle of libucs, kept: it also says which UCX this is
    Functions m_functions;
    std::string m_ucs_path;
    bool m_has_uct = false;
    std::atomic<bool> m_uct_claimed{false}, m_ucm_claimed{false};
};

} // namespace gaudi::ucx
