// SPDX-License-Identifier: BSD-3-Clause
// Exported functions: opening, closing, identity.
#include "call.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace softgaudi;

namespace {

hlthunk_device_name name_of(const Model &model) {
    return model.device_id == HL_PCI_ID_GAUDI3 ? HLTHUNK_DEVICE_GAUDI3 : HLTHUNK_DEVICE_GAUDI2;
}

bool matches(hlthunk_device_name name, const Model &model) {
    return name == HLTHUNK_DEVICE_DONT_CARE || name == name_of(model);
}

/// Tries all cards. This function's convention for failure is -1 with the last errno.
template <class Open>
int open_first(hlthunk_device_name name, Open open) {
    Server *server = Server::get();
    int error = ENOENT;
    for (unsigned i = 0; server && i < server->cards(); ++i) {
        if (!matches(name, server->card(i).model()))
            continue;
        const int fd = open(server->card(i));
        if (fd >= 0)
            return fd;
        error = -fd;
    }
    errno = error;
    return -1;
}

int open_control(Function function, Card *card, int if_none) {
    const Call call(function, card);
    if (!call)
        return fail(call.error());
    return card ? result(card->open_control()) : fail(if_none);
}

} // namespace

SOFTGAUDI_API int hlthunk_open(hlthunk_device_name name, const char *busid) {
    Server *server = Server::get();
    if (!busid) {
        return open_first(name, [](Card &card) {
            const Call call("open", &card);
            return call ? card.open_compute() : -call.error();
        });
    }
    Card *card = server ? server->find_by_bus_id(busid) : nullptr;
    const Call call("open", card);
    if (!call)
        return fail(call.error());
    return card ? result(card->open_compute()) : fail(EINVAL);
}

SOFTGAUDI_API int hlthunk_open_by_module_id(uint32_t module_id) {
    Server *server = Server::get();
    Card *card = server ? server->find_by_module_id(module_id) : nullptr;
    const Call call("open_by_module_id", card);
    if (!call)
        return fail(call.error());
    if (!card) {
        errno = ENODEV;
        return -1;
    }
    return result(card->open_compute());
}

SOFTGAUDI_API int hlthunk_open_control(int dev_id, const char *busid) {
    Server *server = Server::get();
    Card *card = nullptr;
    if (server && busid)
        card = server->find_by_bus_id(busid);
    else if (server && dev_id >= 0 && static_cast<unsigned>(dev_id) < server->cards())
        card = &server->card(static_cast<unsigned>(dev_id));
    return open_control("open_control", card, busid ? EINVAL : ENOENT);
}

SOFTGAUDI_API int hlthunk_open_control_by_name(hlthunk_device_name name, const char *busid) {
    if (!busid) {
        return open_first(name, [](Card &card) {
            const Call call("open_control_by_name", &card);
            return call ? card.open_control() : -call.error();
        });
    }
    Server *server = Server::get();
    return open_control("open_control_by_name", server ? server->find_by_bus_id(busid) : nullptr, EINVAL);
}

SOFTGAUDI_API int hlthunk_open_control_by_module_id(uint32_t module_id) {
    Server *server = Server::get();
    return open_control("open_control_by_module_id", server ? server->find_by_module_id(module_id) : nullptr, EBADF);
}

SOFTGAUDI_API int hlthunk_open_control_by_bus_id(const char *busid) {
    Server *server = Server::get();
    return open_control("open_control_by_bus_id", server && busid ? server->find_by_bus_id(busid) : nullptr, EBADF);
}

SOFTGAUDI_API int hlthunk_close(int fd) {
    const Call call("close", fd, Needs::descriptor);
    if (::close(fd) != 0)
        return fail(errno);
    if (call.has_card() && !call.control())
        call.card().handle_close(); // also when a fault makes the close fail: the descriptor is closed
    return call || call.error() == ENOTTY ? 0 : fail(call.error());
}

SOFTGAUDI_API uint32_t hlthunk_get_device_id_from_fd(int fd) {
    const Call call("get_device_id_from_fd", fd, Needs::anything);
    return call ? call.card().model().device_id : uint32_t{HL_PCI_ID_INVALID};
}

SOFTGAUDI_API hlthunk_device_name hlthunk_get_device_name_from_fd(int fd) {
    const Call call("get_device_name_from_fd", fd, Needs::anything);
    return call ? name_of(call.card().model()) : HLTHUNK_DEVICE_INVALID;
}

SOFTGAUDI_API int hlthunk_get_pci_bus_id_from_fd(int fd, char *pci_bus_id, int len) {
    if (!pci_bus_id || len <= 0)
        return fail(EINVAL);
    const Call call("get_pci_bus_id_from_fd", fd, Needs::anything);
    const bool falls_back = call.is_stray() && Server::get()->config().quirks.fallback && fcntl(fd, F_GETFD) >= 0;
    if (!call && !falls_back) {
        errno = call.error();
        return -1;
    }
    const std::string name = bus_id(falls_back ? 0 : call.card().index());
    std::memset(pci_bus_id, 0, static_cast<size_t>(len));
    std::memcpy(pci_bus_id, name.data(), std::min(name.size(), static_cast<size_t>(len)));
    return 0;
}

SOFTGAUDI_API int hlthunk_get_device_index_from_pci_bus_id(const char *busid) {
    if (!busid)
        return fail(EINVAL);
    Server *server = Server::get();
    Card *card = server ? server->find_by_bus_id(busid) : nullptr;
    const Call call("get_device_index_from_pci_bus_id", card);
    if (!call)
        return fail(call.error());
    return card ? static_cast<int>(card->index()) : -1;
}

SOFTGAUDI_API int hlthunk_get_device_count(hlthunk_device_name name) {
    const Call call("get_device_count");
    if (name == HLTHUNK_DEVICE_INVALID || name < 0 || name >= HLTHUNK_DEVICE_MAX)
        return fail(EINVAL);
    Server *server = Server::get();
    if (!call || !server)
        return server ? fail(call.error()) : 0;
    if (!matches(name, server->config().model))
        return 0;
    int count = 0;
    for (unsigned i = 0; i < server->cards(); ++i) {
        const CardLock lock(server->card(i));
        count += server->card(i).state().lost ? 0 : 1;
    }
    return count;
}

SOFTGAUDI_API char *hlthunk_get_version() {
    const Call call("get_version");
    return strdup(SOFTGAUDI_VERSION);
}

SOFTGAUDI_API void *hlthunk_malloc(size_t size) {
    const Call call("malloc");
    return call.error() == 0 || !Server::get() ? std::calloc(1, size) : nullptr;
}

SOFTGAUDI_API void hlthunk_free(void *ptr) {
    const Call call("free");
    std::free(ptr);
}
