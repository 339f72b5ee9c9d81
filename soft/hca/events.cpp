// SPDX-License-Identifier: BSD-3-Clause
#include "events.h"

#include "os/format.h"
#include "report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softhca {
namespace {

/// Writes one record, which is small enough for an atomic pipe write.
void write_record(const std::string &path, const void *record, size_t bytes) {
    const File fifo(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (fifo && write(fifo.get(), record, bytes) == static_cast<ssize_t>(bytes))
        return;
    const int error = errno;
    if (error == ENOENT || error == ENXIO || error == EPIPE)
        return; // the context, the channel or its process has just ended
    if (mark_reported(Shortage::event, error))
        report(gaudi::os::format("lost an event, because {} cannot be written: {}{}; a program that waits for it may "
                                 "hang",
                                 path, std::strerror(error), error == EAGAIN ? " (it is full of unread events)" : ""));
}

} // namespace

int make_fifo(const std::string &path) {
    unlink(path.c_str());
    if (mkfifo(path.c_str(), 0600) != 0)
        return -1;
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

void raise_event(Fabric &fabric, uint32_t id, const AsyncRecord &record) {
    if (fabric.state().contexts.find(id))
        write_record(fabric.context_fifo(id), &record, sizeof record);
}

void raise_device_event(Fabric &fabric, unsigned device, const AsyncRecord &record) {
    for (const ContextEntry &context : fabric.state().contexts.entries) {
        const uint32_t id = context.id.load();
        if (id != 0 && context.device == device)
            raise_event(fabric, id, record);
    }
}

void notify_channel(Fabric &fabric, uint32_t id, uint32_t cq) {
    if (fabric.state().channels.find(id))
        write_record(fabric.channel_fifo(id), &cq, sizeof cq);
}

} // namespace softhca
