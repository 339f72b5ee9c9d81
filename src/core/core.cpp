// SPDX-License-Identifier: BSD-3-Clause
#include "core.h"

#include "os/format.h"
#include "perftest/allocator.h"
#include "thunk/current_exception.h"
#include "thunk/report.h"
#include "ucm/installer.h"
#include "uct/register.h"
#include "ucx/log.h"
#include "ucx/proof.h"
#include "ucx/status.h"

#define GAUDI_CORE_EXPORT __attribute__((visibility("default")))

namespace gaudi::core {
namespace {

using ucx::Error;
using ucx::Host;
using ucx::Result;
using ucx::ucs_status_t;

/// Logs one warning; UCX then continues without the module.
ucs_status_t refuse(const Host &host, const std::string &why) {
    GAUDI_UCX_LOG(host, WARN, "no Gaudi support: %s; ucx-gaudi needs UCX 1.22 or later, built without statistics",
                  why.c_str());
    return ucx::UCS_ERR_UNSUPPORTED;
}

void log_served_ucx(const Host &host, ucx::Tables tables) {
    const std::optional<ucx::Version> version = host.version();
    if (version && ucx::is_newer_than_tested(*version))
        GAUDI_UCX_LOG(host, INFO, "%s is newer than %u.%u, the newest UCX that ucx-gaudi is tested with; its ABI fits",
                      host.name().c_str(), ucx::kNewestTested.major, ucx::kNewestTested.minor);
    GAUDI_UCX_LOG(host, DEBUG, "ucx-gaudi " UCX_GAUDI_VERSION " serves %s, operation tables of %s", host.name().c_str(),
                  ucx::tables_name(tables));
}

ucs_status_t load_uct(const void *caller) {
    const Result<Host *> found = Host::find(caller);
    if (!found) {
        // Without a Host there is no log of UCX's to write to, and the user must learn why the module does nothing.
        thunk::report({found.error().code, found.error().call,
                       os::format("no Gaudi support: {}; UCX 1.22 or later is needed", found.error().text)});
        return ucx::UCS_ERR_UNSUPPORTED;
    }
    Host &host = **found;
    if (!host.claim_uct()) {
        GAUDI_UCX_LOG(host, DEBUG, "the module is loaded already, under another name; this copy is not used");
        return ucx::UCS_ERR_ALREADY_EXISTS;
    }
    if (const Result<void> uct = host.find_uct(); !uct)
        return refuse(host, uct.error().text);
    const Result<ucx::Tables> tables = ucx::prove_tables(host.call());
    if (!tables)
        return refuse(host, os::format("{} cannot be used: {}", host.name(), tables.error().text));
    log_served_ucx(host, *tables);
    return uct::register_uct(host);
}

/// Silent about a UCX that cannot be used: loading the uct module has logged that.
ucs_status_t load_ucm(const void *caller) {
    const Result<Host *> found = Host::find(caller);
    if (!found)
        return ucx::UCS_ERR_UNSUPPORTED;
    if (!(*found)->claim_ucm())
        return ucx::UCS_ERR_ALREADY_EXISTS;
    return ucm::register_installer(**found);
}

ucs_status_t load_perftest(const void *caller) {
    const Result<Host *> found = Host::find(caller);
    return found ? perftest::register_allocator(**found) : ucx::UCS_ERR_UNSUPPORTED;
}

/// Runs `load`; an exception is reported and becomes a status.
template <class Load>
signed char call_guarded(const char *name, Load &&load) noexcept {
    try {
        return load();
    } catch (...) {
        const Error error = thunk::current_exception_error(name);
        thunk::report(error);
        return ucx::status_from_errno(error.code);
    }
}

} // namespace
} // namespace gaudi::core

using namespace gaudi::core;

GAUDI_CORE_EXPORT signed char gaudi_core_uct_load(void *caller) {
    return call_guarded("gaudi_core_uct_load", [&] { return load_uct(caller); });
}

GAUDI_CORE_EXPORT signed char gaudi_core_ucm_load(void *caller) {
    return call_guarded("gaudi_core_ucm_load", [&] { return load_ucm(caller); });
}

GAUDI_CORE_EXPORT signed char gaudi_core_perftest_load(void *caller) {
    return call_guarded("gaudi_core_perftest_load", [&] { return load_perftest(caller); });
}
