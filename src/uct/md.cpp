// SPDX-License-Identifier: BSD-3-Clause
#include "md.h"

#include "gaudi/settings.h"
#include "iface.h"
#include "remote_key.h"
#include "ucx/log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gaudi::uct {

using namespace ucx;

namespace {

constexpr std::uint64_t kHost = memory_type_bit(UCS_MEMORY_TYPE_HOST);
constexpr std::uint64_t kGaudi = memory_type_bit(UCS_MEMORY_TYPE_GAUDI);

tl::unexpected<Error> refuse(int code, const char *call, std::string sentence) {
    return tl::unexpected(Error{code, call, std::move(sentence)});
}

std::uint64_t to_milliseconds(double seconds) {
    constexpr double kLongest = 24 * 3600.0;
    return static_cast<std::uint64_t>(std::clamp(seconds, 0.0, kLongest) * 1000);
}

std::uint64_t number(const void *address) { return reinterpret_cast<std::uint64_t>(address); }

/// The card that the user wants memory on: ours, or the name that launch lines for upstream's module use.
std::string wanted_device(const char *configured) {
    const std::string device = configured ? configured : "auto";
    const char *old = std::getenv("UCX_GAUDI_GDR_DEVICE_ID");
    return device == "auto" && old ? fmt::format("module:{}", old) : device;
}

} // namespace

uct_md_ops Md::s_ops = make_md_ops<Md>();

Md::Md(Component &component, Cards &cards, const MdConfig &config)
    : uct_md{&s_ops, &component}, m_component(component), m_cards(cards), m_device(wanted_device(config.device)),
      m_max_memory(config.max_memory), m_dmabuf(config.dmabuf != UCS_NO) {}

Result<Md *> Md::open(Component &component, Cards &cards, const MdConfig &config) {
    std::unique_ptr<Md, void (*)(Md *)> md(new Md(component, cards, config), [](Md *made) { delete made; });
    if (md->m_device != "auto")
        if (auto named = cards.named(md->m_device); !named)
            return tl::unexpected(named.error());
    component.begin_domain(config.dmabuf);
    settings().max_memory.store(md->limit(), std::memory_order_relaxed);
    settings().open_timeout_ms.store(to_milliseconds(config.open_timeout), std::memory_order_relaxed);
    if (!cards.empty())
        component.start_listening(cards);
    else
        GAUDI_UCX_LOG(component.host(), DIAG, "%s", cards.why_empty().c_str());
    return md.release();
}

void Md::failed(const Error &error) const noexcept {
    GAUDI_UCX_LOG(m_component.host(), ERROR, "%s", error.text.c_str());
}

bool Md::can_copy() const {
    if (m_cards.empty())
        return true; // nothing will come to be copied, but what peers can do is reckoned by what we say
    for (const auto &card : m_cards.all())
        if (card->find_copy_path())
            return true;
    return false;
}

std::uint64_t Md::limit() const {
    return m_max_memory == UCS_MEMUNITS_INF || m_max_memory == UCS_MEMUNITS_AUTO ? UINT64_MAX : m_max_memory;
}

ucs_status_t Md::query(uct_md_attr_v2 *attr) {
    attr->max_alloc = UINT64_MAX;
    attr->max_reg = SIZE_MAX;
    // With a handle of the host side UCX keeps what is mapped, and copies need not look for it.
    attr->flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY |
                  UCT_MD_FLAG_FIXED | UCT_MD_FLAG_REG_DMABUF;
    attr->reg_mem_types = kHost | kGaudi;
    attr->reg_nonblock_mem_types = 0;
    attr->cache_mem_types = 0;
    attr->gva_mem_types = 0;
    attr->detect_mem_types = kGaudi;
    attr->alloc_mem_types = kGaudi;
    // Access without a copy path would fail every worker: UCX believes it.
    attr->access_mem_types = can_copy() ? kHost | kGaudi : 0;
    attr->dmabuf_mem_types = m_dmabuf ? kGaudi : 0;
    attr->reg_cost = {0, 0};
    std::memset(attr->component_name, 0, sizeof attr->component_name);
    std::strncpy(attr->component_name, kComponentName, sizeof attr->component_name - 1);
    attr->rkey_packed_size = sizeof(RemoteKey);
    std::memset(&attr->local_cpus, 0xff, sizeof attr->local_cpus);
    attr->exported_mkey_packed_size = 0;
    attr->reg_alignment = 1;
    attr->required_mem_flags = 0;
    return UCS_OK;
}

// ---- allocation ---------------------------------------------------------------------------------------------------

Result<Card *> Md::choose(ucs_sys_device_t sys_dev) {
    if (sys_dev != UCS_SYS_DEVICE_ID_UNKNOWN) {
        if (Card *card = m_component.card_of(sys_dev))
            return card;
        return refuse(
            ENODEV, "mem_alloc",
            fmt::format("system device {} is no Gaudi card that UCX's topology knows: it knows a card only by "
                        "an entry under /sys/bus/pci/devices; UCX_GAUDI_COPY_DEVICE chooses a card without one",
                        sys_dev));
    }
    return m_device == "auto" ? m_cards.usual() : m_cards.named(m_device);
}

Result<void> Md::mem_alloc(std::size_t *length, void **address, ucs_memory_type_t mem_type, ucs_sys_device_t sys_dev,
                           unsigned flags, const char *, uct_mem_h *memh) {
    if (mem_type != UCS_MEMORY_TYPE_GAUDI)
        return refuse(ENOTSUP, "mem_alloc", "gaudi_copy allocates Gaudi memory only");
    if (*length == 0)
        return refuse(EINVAL, "mem_alloc", "cannot allocate 0 bytes");
    auto card = choose(sys_dev);
    if (!card)
        return tl::unexpected(card.error());
    const bool fixed = (flags & UCT_MD_MEM_FLAG_FIXED) != 0;
    Arena::Request request;
    request.length = *length;
    request.fixed = fixed ? number(*address) : 0;
    if (const Region *region = m_cards.find(request.fixed); region && sys_dev == UCS_SYS_DEVICE_ID_UNKNOWN)
        card = &region->card(); // an address within a block names its card
    request.limit = limit();
    auto allocated = (*card)->arena().allocate(request);
    if (!allocated)
        return tl::unexpected(allocated.error());
    auto handle = std::make_unique<MemoryHandle>();
    handle->kind = MemoryHandle::Kind::allocated;
    handle->address = *allocated;
    handle->length = *length;
    Region *region = m_cards.find(*allocated);
    if (!region || !handle->hold(*region))
        return refuse(ENODEV, "mem_alloc", "the card was closed by the program that had opened it");
    if (fixed && request.fixed == 0 && (!m_dmabuf || region->export_descriptor() < 0)) {
        (*card)->arena().free(*allocated);
        return refuse(ENOTSUP, "mem_alloc", "memory that is to stay fixed must be exported, and it cannot be");
    }
    *address = reinterpret_cast<void *>(*allocated);
    *memh = handle.release();
    return {};
}

Result<void> Md::mem_free(uct_mem_h memh) {
    MemoryHandle *given = MemoryHandle::from(memh);
    if (!given || given->kind != MemoryHandle::Kind::allocated)
        return refuse(EINVAL, "mem_free", "that memory was not allocated here");
    const std::unique_ptr<MemoryHandle> handle(given);
    if (!handle->live())
        return {}; // it went with its card, which somebody else has closed
    if (!handle->region->card().arena().free(handle->address))
        return refuse(EINVAL, "mem_free", fmt::format("nothing is allocated at {:#x}", handle->address));
    return {};
}

// ---- registration -------------------------------------------------------------------------------------------------

Result<void> Md::mem_reg(void *address, std::size_t length, const uct_md_mem_reg_params *params, uct_mem_h *memh) {
    const std::uint64_t mask = params ? params->field_mask : 0;
    auto handle = std::make_unique<MemoryHandle>();
    handle->address = number(address);
    handle->length = length;
    const bool typed = (mask & UCT_MD_MEM_REG_FIELD_MEM_TYPE) != 0;
    const bool dmabuf = (mask & UCT_MD_MEM_REG_FIELD_DMABUF_FD) != 0 && params->dmabuf_fd != UCT_DMABUF_FD_INVALID;
    Region *region = m_cards.look_up(handle->address);
    while (region && !handle->hold(*region)) // it went meanwhile
        region = m_cards.look_up(handle->address);
    if (region) {
        handle->kind = MemoryHandle::Kind::gaudi;
        // With a dma-buf it is registered for a memory handle; without one, for a single copy.
        handle->unseen = dmabuf && region->origin() == Region::Origin::asked;
    } else if (dmabuf) {
        // An error would fail the registration of another vendor's memory with all domains: whether the driver can import
        // it is seen at the first copy.
        const std::uint64_t offset = (mask & UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET) != 0 ? params->dmabuf_offset : 0;
        if (thunk::Fd own(fcntl(params->dmabuf_fd, F_DUPFD_CLOEXEC, 0)); own && is_dmabuf(own.get())) {
            handle->kind = MemoryHandle::Kind::dmabuf;
            handle->range =
                std::make_unique<HostRange>(handle->address, length, m_cards.all().size(), std::move(own), offset);
        }
    } else if ((!typed || params->mem_type == UCS_MEMORY_TYPE_HOST)) {
        // UCX registers all host memory with every domain: nothing is opened or pinned for it here.
        handle->kind = MemoryHandle::Kind::host;
        handle->range = std::make_unique<HostRange>(handle->address, length, m_cards.all().size());
        handle->range->may_leave();
    }
    *memh = handle.release();
    return {};
}

Result<void> Md::mem_dereg(const uct_md_mem_dereg_params *params) {
    if (!params || (params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) == 0)
        return refuse(EINVAL, "mem_dereg", "no memory handle was given");
    if ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) != 0 && params->flags != 0)
        return refuse((params->flags & ~UCT_MD_MEM_DEREG_FLAG_INVALIDATE) != 0 ? EINVAL : ENOTSUP, "mem_dereg",
                      "gaudi_copy cannot invalidate a registration");
    MemoryHandle *given = MemoryHandle::from(params->memh);
    if (!given || given->kind == MemoryHandle::Kind::allocated)
        return refuse(EINVAL, "mem_dereg", "that is no registration of gaudi_copy");
    if (given->unseen)
        m_component.drop_cached_registrations({given->address, given->length});
    delete given;
    return {};
}

// ---- recognition --------------------------------------------------------------------------------------------------

/// The mapping that holds all of it, as it is now.
Region *Md::recognise(std::uint64_t address, std::size_t length) {
    Region *region = m_cards.look_up(address);
    if (region && !m_cards.foreign().still_there(*region))
        region = m_cards.look_up(address);
    if (region && region->origin() == Region::Origin::asked && !region->contains(address, length))
        region = m_cards.foreign().ask_again(*region, address);
    return region;
}

ucs_status_t Md::mem_query(const void *address, std::size_t length, uct_md_mem_attr_v2 *attr) {
    // Host memory is asked about all the time, and is no error.
    while (Region *region = recognise(number(address), length)) {
        const std::uint64_t generation = region->generation_with(number(address));
        if (generation == 0)
            continue;
        const ucs_status_t status = describe(*region, generation, number(address), length, attr);
        if (region->generation() == generation)
            return status;
        // It went while it was looked at, and the answers may be of two mappings.
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0 && attr->dmabuf_fd != UCT_DMABUF_FD_INVALID)
            thunk::Fd(std::exchange(attr->dmabuf_fd, UCT_DMABUF_FD_INVALID));
    }
    return UCS_ERR_INVALID_ADDR;
}

ucs_status_t Md::describe(Region &region, std::uint64_t generation, std::uint64_t address, std::size_t length,
                          uct_md_mem_attr_v2 *attr) {
    const std::uint64_t mask = attr->field_mask;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0)
        attr->mem_type = UCS_MEMORY_TYPE_GAUDI;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
        attr->sys_dev = m_component.sys_device(region.card());
    if ((mask & (UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS | UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH)) != 0) {
        const Range allocation = region.allocation(address);
        if ((mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
            attr->base_address = reinterpret_cast<void *>(allocation.base);
        if ((mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0)
            attr->alloc_length = allocation.length;
    }
    const std::uint64_t offset = address - region.base();
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
        attr->dmabuf_offset = offset;
    if ((mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) != 0)
        attr->mem_flags = m_component.mem_flags(region);
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) == 0)
        return UCS_OK;
    attr->dmabuf_fd = UCT_DMABUF_FD_INVALID;
    if (!m_dmabuf || !region.exportable() || length > region.export_size() - offset)
        return UCS_OK;
    auto exported = region.dmabuf();
    if (exported) {
        attr->dmabuf_fd = exported->detach();
        m_component.advise_on_refusal();
        return UCS_OK;
    }
    if (region.generation() != generation)
        return UCS_ERR_INVALID_ADDR;
    if (region.origin() != Region::Origin::asked && !region.exportable())
        m_component.mapped(region); // the cache still says that it can be registered
    failed(exported.error());
    return status_from_errno(exported.error().code);
}

ucs_status_t Md::detect_memory_type(const void *address, std::size_t, ucs_memory_type_t *mem_type) {
    if (!recognise(number(address), 1))
        return UCS_ERR_INVALID_ADDR;
    *mem_type = UCS_MEMORY_TYPE_GAUDI;
    return UCS_OK;
}

// ---- keys ---------------------------------------------------------------------------------------------------------

Result<void> Md::mkey_pack(uct_mem_h memh, void *, std::size_t, const uct_md_mkey_pack_params *params, void *buffer) {
    // A key that is to be invalidated later is packed as any other, as by UCX's own copy domains: it is deregistration that
    // cannot invalidate. An exported key would be a promise to another process.
    constexpr unsigned kInvalidate = UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA | UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO;
    if (params && (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0 && (params->flags & ~kInvalidate) != 0)
        return refuse(ENOTSUP, "mkey_pack", "gaudi_copy packs no keys for export to another process");
    const MemoryHandle *handle = MemoryHandle::from(memh);
    if (!handle)
        return refuse(EINVAL, "mkey_pack", "that is no memory handle of gaudi_copy");
    if (handle->region && !handle->live())
        return refuse(EINVAL, "mkey_pack", fmt::format("the memory at {:#x} is gone", handle->address));
    const RemoteKey key = RemoteKey::of(*handle);
    std::memcpy(buffer, &key, sizeof key);
    return {};
}

Result<void> Md::mem_attach(const void *buffer, uct_md_mem_attach_params *params, uct_mem_h *memh) {
    if (params && (params->field_mask & UCT_MD_MEM_ATTACH_FIELD_MKEY_SIZE) != 0 &&
        params->mkey_size < sizeof(RemoteKey))
        return refuse(EINVAL, "mem_attach",
                      fmt::format("a key has {} bytes, not {}", sizeof(RemoteKey), params->mkey_size));
    const auto key = RemoteKey::read(buffer);
    if (!key)
        return tl::unexpected(key.error());
    const auto holder = key->resolve(m_cards);
    if (!holder)
        return tl::unexpected(holder.error());
    if (!key->own())
        if (auto fetched = key->fetch(); !fetched)
            return tl::unexpected(fetched.error());
    auto handle = std::make_unique<MemoryHandle>();
    handle->address = key->address;
    handle->length = key->length;
    handle->process = key->process;
    handle->descriptor = key->descriptor;
    handle->region = holder->region;
    handle->generation = holder->generation;
    if (handle->region)
        handle->kind = MemoryHandle::Kind::gaudi;
    // Another process's memory cannot be mapped into a card by the drivers we know: the handle is good for its key only.
    *memh = handle.release();
    return {};
}

// ---- the transport ------------------------------------------------------------------------------------------------

Result<void> Md::query_devices(uct_tl_device_resource **devices, unsigned *count) {
    *count = 0;
    *devices = m_component.host().allocate<uct_tl_device_resource>(1, "gaudi device");
    if (!*devices)
        return refuse(ENOMEM, "query_devices", "no memory to list the gaudi device");
    // One for all cards: UCP takes at most two lanes for a memory type, and the addresses tell the cards apart.
    std::strncpy((*devices)->name, "gaudi", sizeof(*devices)->name - 1);
    (*devices)->type = UCT_DEVICE_TYPE_ACC;
    (*devices)->sys_device =
        m_cards.all().size() == 1 ? m_component.sys_device(*m_cards.all().front()) : UCS_SYS_DEVICE_ID_UNKNOWN;
    *count = 1;
    return {};
}

Result<void> Md::iface_open(uct_worker_h worker, const uct_iface_params *params, const uct_iface_config *config,
                            uct_iface_h *iface) {
    auto opened = Iface::open(*this, worker, *params, *reinterpret_cast<const IfaceConfig *>(config));
    if (!opened)
        return tl::unexpected(opened.error());
    *iface = &(*opened)->super;
    return {};
}

} // namespace gaudi::uct
