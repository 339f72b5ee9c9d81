// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "device.h"

#include <fcntl.h>
#include <sys/ioctl.h>

namespace gaudi::thunk {

Result<std::uint64_t> Device::alloc(std::uint64_t size) const {
    constexpr std::uint64_t kDefaultPageSize = 0;
    constexpr bool kContiguous = false;
    constexpr bool kShared = false; // with another context of the card, and a card has only one
    const std::uint64_t handle =
        invoke(m_library->call().device_memory_alloc, m_fd, size, kDefaultPageSize, kContiguous, kShared);
    if (handle == 0)
        return tl::unexpected(from_zero(errno, "hlthunk_device_memory_alloc", os::format("{} bytes", size)));
    return handle;
}

Result<void> Device::free(std::uint64_t handle) const {
    const int rc = invoke(m_library->call().device_memory_free, m_fd, handle);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, "hlthunk_device_memory_free", os::format("{:#x}", handle)));
    return {};
}

Result<std::uint64_t> Device::map(std::uint64_t handle, std::uint64_t hint) const {
    const std::uint64_t address = invoke(m_library->call().device_memory_map, m_fd, handle, hint);
    if (address == 0)
        return tl::unexpected(from_zero(errno, "hlthunk_device_memory_map", os::format("{:#x}", handle)));
    return address;
}

Result<std::uint64_t> Device::host_map(void *host, std::uint64_t size) const {
    constexpr std::uint64_t kNoHint = 0;
    const std::uint64_t address = invoke(m_library->call().host_memory_map, m_fd, host, kNoHint, size);
    if (address == 0)
        return tl::unexpected(from_zero(errno, "hlthunk_host_memory_map",
                                        os::format("{}, {} bytes", static_cast<const void *>(host), size)));
    return address;
}

Result<void> Device::unmap(std::uint64_t address) const {
    const int rc = invoke(m_library->call().memory_unmap, m_fd, address);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, "hlthunk_memory_unmap", os::format("{:#x}", address)));
    return {};
}

Result<Fd> Device::export_dmabuf(std::uint64_t address, std::uint64_t size) const {
    constexpr const char *kName = "hlthunk_device_mapped_memory_export_dmabuf_fd";
    if (!m_library->has_dmabuf())
        return tl::unexpected(m_library->lacks(kName));
    // The library refuses all other flags before it calls the driver.
    constexpr std::uint32_t kFlags = O_RDWR | O_CLOEXEC;
    constexpr std::uint64_t kOffset = 0;
    const int fd =
        invoke(m_library->call().device_mapped_memory_export_dmabuf_fd, m_fd, address, size, kOffset, kFlags);
    if (fd < 0)
        return tl::unexpected(from_negative(fd, kName, os::format("{:#x}, {} bytes", address, size)));
    return Fd(fd);
}

namespace {

/// The argument of the driver's memory request, as far as an import needs it.
struct ImportArgs {
    std::uint64_t dmabuf_or_address; // in: the descriptor; out: the device address
    std::uint64_t size;
    std::uint64_t unused;
    std::uint32_t operation;
    std::uint32_t flags;
    std::uint32_t context;
    std::uint32_t count;
};
static_assert(sizeof(ImportArgs) == 40);

constexpr std::uint32_t kImportDmabuf = 99;
constexpr unsigned long kMemoryCall = _IOWR('d', 0x44, ImportArgs);
static_assert(kMemoryCall == 0xC0286444);

} // namespace

Result<std::uint64_t> Device::import_dmabuf(int dmabuf, std::uint64_t size) const {
    ImportArgs args{};
    args.dmabuf_or_address = static_cast<std::uint64_t>(dmabuf);
    args.size = size;
    args.operation = kImportDmabuf;
    if (ioctl(m_fd, kMemoryCall, &args) != 0)
        return tl::unexpected(make_error(errno, "import", os::format("descriptor {}, {} bytes", dmabuf, size),
                                         "this driver cannot import the dma-buf of another device"));
    return args.dmabuf_or_address;
}

} // namespace gaudi::thunk
