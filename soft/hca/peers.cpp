// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"

#include "os/format.h"
#include "os/system_call.h"
#include "report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace softhca {
namespace {

using gaudi::os::MutexLock;
using gaudi::os::system_call;

constexpr size_t kImports = 64;

/// Opens the descriptor of a process; none, with errno, on failure.
File open_descriptor(int32_t pid, int fd, bool own) {
    // A new open file description where possible: it does not prolong the export. A dma-buf of the kernel can only be
    // shared.
    if (File file(open(gaudi::os::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC)); file)
        return file;
    if (own)
        return File(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const File process(static_cast<int>(system_call(SYS_pidfd_open, pid, 0)));
    return process ? File(static_cast<int>(system_call(SYS_pidfd_getfd, process.get(), fd, 0))) : File();
}

const char *import_advice(int error) {
    switch (error) {
    case EMFILE:
        return "; raise this process's limit of open files (ulimit -n)";
    case ENFILE:
        return "; raise the machine's limit of open files (sysctl fs.file-max)";
    case EACCES:
    case EPERM:
        return "; the HCA needs the right to trace that process: same user, same user namespace, "
               "kernel.yama.ptrace_scope below 2";
    default:
        return "";
    }
}

void report_refused_import(const MrEntry &region, int32_t pid, int error) {
    if (error == ENOENT || error == ESRCH)
        return; // the process has exited, which the retries of the request detect
    if (mark_reported(Shortage::import, error))
        report(gaudi::os::format(
            "cannot open the dma-buf of a memory region (descriptor {} of process {}): {}; requests that "
            "use it fail{}",
            region.fd, pid, std::strerror(error), import_advice(error)));
}

} // namespace

bool Peers::is_alive(uint32_t process) const { return process == m_fabric.self() || m_fabric.is_alive(process); }

bool Peers::is_dying(uint32_t process) const {
    if (!is_alive(process))
        return true;
    char byte = 0;
    const iovec local{&byte, 1}, remote{nullptr, 1};
    const int32_t pid = m_fabric.state().processes.entries[process].pid.load();
    return system_call(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) < 0 && errno == ESRCH;
}

Peers::Import::Import(uint32_t key, File file, const MrEntry &region)
    : m_key(key), m_process(region.process), m_file(std::move(file)) {
    if (region.kernel)
        return; // dma-bufs of the kernel are mapped piece by piece, if their exporter allows it
    m_begin = region.base % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    m_length = m_begin + region.length;
    void *memory =
        mmap(nullptr, m_length, PROT_READ, MAP_SHARED, m_file.get(), static_cast<off_t>(region.base - m_begin));
    if (memory != MAP_FAILED)
        m_map = static_cast<unsigned char *>(memory);
}

Peers::Import::~Import() {
    if (m_map)
        munmap(m_map, m_length);
}

Peers::ImportPtr Peers::import(MrEntry &region, uint32_t key) {
    {
        const MutexLock lock(m_mutex);
        const auto known = std::find_if(m_imports.begin(), m_imports.end(),
                                        [key](const ImportPtr &import) { return import->key() == key; });
        if (known != m_imports.end()) {
            m_imports.splice(m_imports.begin(), m_imports, known);
            return m_imports.front();
        }
    }
    close_deregistered();
    // Set while the region is marked as touched: the owner waits for that mark before it reads `imported`.
    const bool own = region.process == m_fabric.self();
    if (!own)
        region.imported.store(1, std::memory_order_seq_cst);
    const int32_t pid = m_fabric.state().processes.entries[region.process].pid.load();
    File file = open_descriptor(pid, region.fd, own);
    if (!file) {
        report_refused_import(region, pid, errno);
        return nullptr;
    }
    auto import = std::make_shared<const Import>(key, std::move(file), region);
    if (!own)
        m_from_others.store(true, std::memory_order_relaxed);
    ImportPtr oldest; // closed without the lock
    const MutexLock lock(m_mutex);
    m_imports.push_front(import);
    if (m_imports.size() > kImports) {
        oldest = std::move(m_imports.back());
        m_imports.pop_back();
    }
    return import;
}

template <class Stale>
void Peers::close_if(Stale stale) {
    std::list<ImportPtr> closed; // without the lock: the memory hooks of a program may see the unmapping
    const MutexLock lock(m_mutex);
    for (auto at = m_imports.begin(); at != m_imports.end();) {
        const auto next = std::next(at);
        if (stale(**at))
            closed.splice(closed.end(), m_imports, at);
        at = next;
    }
}

void Peers::close_deregistered() {
    close_if([this](const Import &import) { return !m_fabric.state().mrs.find(import.key()); });
}

void Peers::close_deregistered_and_dead() {
    close_if([this](const Import &import) {
        return !m_fabric.state().mrs.find(import.key()) || !is_alive(import.process());
    });
}

} // namespace softhca
