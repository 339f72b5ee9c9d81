// SPDX-License-Identifier: BSD-3-Clause
// Opens a memory domain and an interface of a transport with UCT alone, and allocates Gaudi memory.
#pragma once

#include <uct/api/uct.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace uct_open {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
void check(ucs_status_t status, const char *what);

/// Values of a component's variables, by name without UCX_.
using Settings = std::vector<std::pair<std::string, const char *>>;

/// The first memory domain of a component.
class Domain {
public:
    explicit Domain(const char *component, const Settings &settings = {});
    ~Domain();
    Domain(const Domain &) = delete;
    Domain &operator=(const Domain &) = delete;

    uct_component_h component() const { return m_component; }
    uct_md_h md() const { return m_md; }

protected:
    Domain() = default;
    /// UCS_ERR_NO_ELEM when UCX has no such domain, or the error of opening it.
    ucs_status_t open(const char *component, const Settings &settings);

private:
    uct_component_h m_component = nullptr;
    uct_md_h m_md = nullptr;
};

struct DestroyEndpoint {
    void operator()(uct_ep_h ep) const { uct_ep_destroy(ep); }
};
using Endpoint = std::unique_ptr<uct_ep_t, DestroyEndpoint>;

/// An interface of a transport, and the worker that progresses it.
class Interface {
public:
    Interface(const Domain &domain, const char *transport, const char *device);
    ~Interface();
    Interface(const Interface &) = delete;
    Interface &operator=(const Interface &) = delete;

    uct_worker_h worker() const { return m_worker; }
    uct_iface_h iface() const { return m_iface; }
    uct_iface_attr_t attributes() const;

    /// For transports that connect endpoints to endpoints.
    Endpoint endpoint() const;
    /// For transports that connect endpoints to interfaces: connects to this one.
    Endpoint endpoint_to_itself() const;

private:
    ucs_async_context_t *m_async = nullptr;
    uct_worker_h m_worker = nullptr;
    uct_iface_h m_iface = nullptr;
};

class CardMemory {
public:
    CardMemory(const Domain &gaudi, std::size_t size);
    ~CardMemory() { uct_mem_free(&m_memory); }
    CardMemory(const CardMemory &) = delete;
    CardMemory &operator=(const CardMemory &) = delete;

    char *data() const { return static_cast<char *>(m_memory.address); }

private:
    uct_allocated_memory_t m_memory{};
};

} // namespace uct_open
