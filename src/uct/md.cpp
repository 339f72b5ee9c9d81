// SPDX-License-Identifier: BSD-3-Clause
#include "md.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/engine_slot.h"
#include "gaudi/memory/allocation.h"
#include "iface.h"
#include "os/format.h"
#include "remote_key.h"
#include "ucx/log.h"

#include <fcntl.h>

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

/// `automatic` stands for the user's "auto".
std::uint64_t to_limit(std::size_t configured, std::uint64_t automatic) {
    return configured == UCS_MEMUNITS_INF ? UINT64_MAX : configured == UCS_MEMUNITS_AUTO ? automatic : configured;
}

std::uint64_t number(const void *address) { return reinterpret_cast<std::uint64_t>(address); }

/// The card that the user has set, by this module's variable or by that of upstream's module.
std::string configured_device(const char *configured) {
    const std::string device = configured ? configured : "auto";
    const char *old = std::getenv("UCX_GAUDI_GDR_DEVICE_ID");
    return device == "auto" && old ? os::format("module:{}", old) : device;
}

/// Whether a card has a copy path, or may get one from a framework that is loaded already.
bool may_copy(Cards &cards) {
    if (cards.empty())
        return true; // nothing will be copied here, but UCP plans the copies of peers by this answer
    return std::any_of(cards.all().begin(), cards.all().end(), [](const auto &card) { return has_copy_path(*card); });
}

} // namespace

uct_md_ops Md::s_ops = make_md_ops<Md>();

Md::Md(uct_component &owner, UcxCards &ucx_cards, Cards &cards, const MdConfig &config, bool framework)
    : uct_md{&s_ops, &owner}, m_ucx_cards(ucx_cards), m_cards(cards), m_device(configured_device(config.device)),
      m_max_memory(config.max_memory), m_dmabuf(config.dmabuf != UCS_NO),
      m_offers_copies(framework || may_copy(cards)) {}

Result<Md *> Md::open(uct_component &component, UcxCards &ucx_cards, Cards &cards, const MdConfig &config,
                      bool framework) {
    std::unique_ptr<Md, void (*)(Md *)> md(new Md(component, ucx_cards, cards, config, framework),
                                           [](Md *made) { delete made; });
    if (md->m_device != "auto")
        if (auto named = cards.named(md->m_device); !named)
            return refuse(
                named.error().code, "md_open",
                os::format("cannot choose the card that UCX_GAUDI_COPY_DEVICE or UCX_GAUDI_GDR_DEVICE_ID names: {}",
                           named.error().text));
    ucx_cards.begin_domain(config.dmabuf);
    change_settings([&](Settings &settings) {
        settings.max_memory = {md->limit(), "UCX_GAUDI_COPY_MAX_MEMORY"};
        settings.open_timeout_ms = {to_milliseconds(config.open_timeout), "UCX_GAUDI_COPY_OPEN_TIMEOUT"};
        settings.max_mapped_host = {to_limit(config.max_mapped_host, Settings::kHalfOfMemory),
                                    "UCX_GAUDI_COPY_MAX_MAPPED_HOST"};
    });
    if (!cards.empty())
        ucx_cards.start_listening(cards);
    else
        GAUDI_UCX_LOG(ucx_cards.host(), DIAG, "%s", cards.why_empty().c_str());
    return md.release();
}

void Md::failed(const Error &error) const noexcept {
    GAUDI_UCX_LOG(m_ucx_cards.host(), ERROR, "%s", error.text.c_str());
}

std::uint64_t Md::limit() const { return to_limit(m_max_memory, UINT64_MAX); }

ucs_status_t Md::query(uct_md_attr_v2 *attr) {
    attr->max_alloc = UINT64_MAX;
    attr->max_reg = SIZE_MAX;
    // With a handle of the host end copies need not search for its mapping.
    attr->flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY |
                  UCT_MD_FLAG_FIXED | UCT_MD_FLAG_REG_DMABUF;
    attr->reg_mem_types = kHost | kGaudi;
    attr->reg_nonblock_mem_types = 0;
    attr->cache_mem_types = 0;
    attr->gva_mem_types = 0;
    attr->detect_mem_types = kGaudi;
    attr->alloc_mem_types = kGaudi;
    // UCX plans with it: access without a copy path would fail every worker.
    attr->access_mem_types = m_offers_copies ? kHost | kGaudi : 0;
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
        if (Card *card = m_ucx_cards.card_of(sys_dev))
            return card;
        return refuse(
            ENODEV, "mem_alloc",
            os::format("system device {} is no Gaudi card that UCX's topology knows: it knows a card only by "
                       "an entry under /sys/bus/pci/devices; UCX_GAUDI_COPY_DEVICE chooses a card without one",
                       sys_dev));
    }
    return m_device == "auto" ? m_cards.choose_default() : m_cards.named(m_device);
}

ucs_status_t Md::mem_alloc(std::size_t *length, void **address, ucs_memory_type_t mem_type, ucs_sys_device_t sys_dev,
                           unsigned flags, const char *, uct_mem_h *memh) {
    const Result<void> allocated = try_alloc(length, address, mem_type, sys_dev, flags, memh);
    if (allocated)
        return UCS_OK;
    if ((flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0) // UCP asks again with each protocol that it considers
        GAUDI_UCX_LOG(m_ucx_cards.host(), DIAG, "%s", allocated.error().text.c_str());
    else
        failed(allocated.error());
    return status_from_errno(allocated.error().code);
}

Result<void> Md::try_alloc(std::size_t *length, void **address, ucs_memory_type_t mem_type, ucs_sys_device_t sys_dev,
                           unsigned flags, uct_mem_h *memh) {
    if (mem_type != UCS_MEMORY_TYPE_GAUDI)
        return refuse(ENOTSUP, "mem_alloc", "gaudi_copy allocates Gaudi memory only: give UCS_MEMORY_TYPE_GAUDI");
    if (*length == 0)
        return refuse(EINVAL, "mem_alloc", "cannot allocate 0 bytes");
    auto card = choose(sys_dev);
    if (!card)
        return tl::unexpected(card.error());
    const bool fixed = (flags & UCT_MD_MEM_FLAG_FIXED) != 0;
    AllocationRequest request;
    request.length = *length;
    request.fixed = fixed ? number(*address) : 0;
    if (const Resolved there = resolve(m_cards, request.fixed, 1);
        there && there.is_current() && sys_dev == UCS_SYS_DEVICE_ID_UNKNOWN)
        card = &there.session().card(); // an address within a block names its card
    request.limit = limit();
    request.tentative = (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0;
    const auto allocated = allocate(**card, request);
    if (!allocated)
        return tl::unexpected(allocated.error());
    auto handle = std::make_unique<MemoryHandle>();
    handle->kind = MemoryHandle::Kind::allocated;
    handle->address = *allocated;
    handle->length = *length;
    handle->memory = resolve(m_cards, *allocated, *length);
    if (!handle->memory)
        return tl::unexpected((*card)->error_closed());
    Region &region = handle->memory.region();
    const bool exported =
        region.origin() == Region::Origin::own ? region.export_descriptor() >= 0 : region.exportable();
    if (fixed && request.fixed == 0 && (!m_dmabuf || !exported)) {
        const std::string why = m_dmabuf ? region.why_no_export() : "UCX_GAUDI_COPY_DMABUF=n";
        free_allocation(region, *allocated);
        return refuse(
            ENOTSUP, "mem_alloc",
            os::format("UCT_MD_MEM_FLAG_FIXED without an address needs dma-buf export, which is not available: {}",
                       why));
    }
    *address = reinterpret_cast<void *>(*allocated);
    *memh = handle.release();
    return {};
}

Result<void> Md::mem_free(uct_mem_h memh) {
    MemoryHandle *given = MemoryHandle::from(memh);
    if (!given || given->kind != MemoryHandle::Kind::allocated)
        return refuse(EINVAL, "mem_free", "cannot free: the memory handle is not of an allocation by gaudi_copy");
    const std::unique_ptr<MemoryHandle> handle(given);
    if (!handle->is_live())
        return {}; // the memory ended with its session
    if (!free_allocation(handle->memory.region(), handle->address))
        return refuse(EINVAL, "mem_free", os::format("cannot free {:#x}: nothing is allocated there", handle->address));
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
    if ((handle->memory = resolve(m_cards, handle->address, length))) {
        handle->kind = MemoryHandle::Kind::gaudi;
        // With a dma-buf UCP registers it for a memory handle; without one, for a single copy.
        handle->unhooked = dmabuf && handle->memory.region().origin() == Region::Origin::probed;
    } else if (dmabuf) {
        // An error would fail the registration of another vendor's memory with all domains: the first copy shows whether
        // the driver can import it.
        const std::uint64_t offset = (mask & UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET) != 0 ? params->dmabuf_offset : 0;
        if (thunk::Fd own(fcntl(params->dmabuf_fd, F_DUPFD_CLOEXEC, 0)); own && is_dmabuf(own.get())) {
            handle->kind = MemoryHandle::Kind::dmabuf;
            handle->range =
                std::make_unique<HostRange>(handle->address, length, m_cards.all().size(), std::move(own), offset);
        }
    } else if (!typed || params->mem_type == UCS_MEMORY_TYPE_HOST) {
        // UCX registers all host memory with every domain: nothing is opened or pinned for it here.
        if (!m_cards.is_usual_host_address(handle->address))
            m_ucx_cards.warn_of_tensor_handle(handle->address);
        handle->kind = MemoryHandle::Kind::host;
        handle->range =
            std::make_unique<HostRange>(handle->address, length, m_cards.all().size(), HostRange::Residency::evictable);
    }
    *memh = handle.release();
    return {};
}

Result<void> Md::mem_dereg(const uct_md_mem_dereg_params *params) {
    if (!params || (params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) == 0)
        return refuse(EINVAL, "mem_dereg", "cannot deregister: no memory handle was given");
    if ((params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) != 0 && params->flags != 0)
        return refuse((params->flags & ~UCT_MD_MEM_DEREG_FLAG_INVALIDATE) != 0 ? EINVAL : ENOTSUP, "mem_dereg",
                      "gaudi_copy cannot invalidate a registration: deregister without flags");
    MemoryHandle *given = MemoryHandle::from(params->memh);
    if (!given || given->kind == MemoryHandle::Kind::allocated)
        return refuse(EINVAL, "mem_dereg",
                      "cannot deregister: the memory handle is not of a registration by gaudi_copy");
    if (given->unhooked)
        m_ucx_cards.drop_cached_registrations({given->address, given->length});
    delete given;
    return {};
}

// ---- recognition --------------------------------------------------------------------------------------------------

ucs_status_t Md::mem_query(const void *address, std::size_t length, uct_md_mem_attr_v2 *attr) {
    if (m_cards.is_usual_host_address(number(address)))
        return UCS_ERR_INVALID_ADDR; // UCX queries host memory all the time
    while (const Resolved memory = resolve(m_cards, number(address), length)) {
        const ucs_status_t status = describe(memory, number(address), length, attr);
        if (memory.is_current())
            return status;
        // The mapping ended meanwhile, and the answers may be of two mappings.
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0 && attr->dmabuf_fd != UCT_DMABUF_FD_INVALID)
            thunk::Fd(std::exchange(attr->dmabuf_fd, UCT_DMABUF_FD_INVALID));
    }
    if (const auto lost = LostMemory::get().find(number(address)))
        return describe_lost(*lost, attr);
    m_ucx_cards.warn_of_tensor_handle(number(address));
    return UCS_ERR_INVALID_ADDR;
}

/// As Gaudi memory that cannot be registered: UCX then gives it to this library, which refuses to copy it with the reason. UCX
/// would take it for host memory otherwise, and its processor would access it.
ucs_status_t Md::describe_lost(const LostMemory::Found &lost, uct_md_mem_attr_v2 *attr) const {
    const std::uint64_t mask = attr->field_mask;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0)
        attr->mem_type = UCS_MEMORY_TYPE_GAUDI;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
        attr->sys_dev = m_ucx_cards.sys_device(lost.card);
    if ((mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
        attr->base_address = reinterpret_cast<void *>(lost.range.base);
    if ((mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0)
        attr->alloc_length = lost.range.length;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
        attr->dmabuf_offset = 0;
    if ((mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) != 0)
        attr->mem_flags = 0;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0)
        attr->dmabuf_fd = UCT_DMABUF_FD_INVALID;
    return UCS_OK;
}

ucs_status_t Md::describe(const Resolved &memory, std::uint64_t address, std::size_t length, uct_md_mem_attr_v2 *attr) {
    Region &region = memory.region();
    const std::uint64_t mask = attr->field_mask;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0)
        attr->mem_type = UCS_MEMORY_TYPE_GAUDI;
    if ((mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
        attr->sys_dev = m_ucx_cards.sys_device(region.card());
    if ((mask & (UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS | UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH)) != 0) {
        const Range allocation = region.allocation(address);
        if ((mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
            attr->base_address = reinterpret_cast<void *>(allocation.base);
        if ((mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0)
            attr->alloc_length = allocation.length;
    }
    const std::uint64_t offset = memory.offset(address);
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
        attr->dmabuf_offset = offset;
    if ((mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) != 0)
        attr->mem_flags = m_ucx_cards.mem_flags(region);
    if ((mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) == 0)
        return UCS_OK;
    attr->dmabuf_fd = UCT_DMABUF_FD_INVALID;
    if (!m_dmabuf || !region.exportable() || length > region.export_size() - offset)
        return UCS_OK;
    auto exported = region.dmabuf();
    CardCounters &counted = region.session().counters();
    if (exported) {
        attr->dmabuf_fd = exported->detach();
        count_up(counted.exports);
        count_up(counted.exported_bytes, length);
        m_ucx_cards.advise_on_refused_dmabuf();
        return UCS_OK;
    }
    count_up(counted.failed_exports);
    if (!memory.is_current())
        return UCS_ERR_INVALID_ADDR;
    if (region.origin() != Region::Origin::probed && !region.exportable())
        m_ucx_cards.mapped(region); // UCX's cache still has it as registrable
    failed(exported.error());
    return status_from_errno(exported.error().code);
}

ucs_status_t Md::detect_memory_type(const void *address, std::size_t, ucs_memory_type_t *mem_type) {
    if (m_cards.is_usual_host_address(number(address)))
        return UCS_ERR_INVALID_ADDR;
    if (!resolve(m_cards, number(address), 1) && !LostMemory::get().find(number(address))) {
        m_ucx_cards.warn_of_tensor_handle(number(address));
        return UCS_ERR_INVALID_ADDR;
    }
    *mem_type = UCS_MEMORY_TYPE_GAUDI;
    return UCS_OK;
}

// ---- keys ---------------------------------------------------------------------------------------------------------

Result<void> Md::mkey_pack(uct_mem_h memh, void *, std::size_t, const uct_md_mkey_pack_params *params, void *buffer) {
    // A key to be invalidated later is packed as any other, as by UCX's own copy domains: deregistration refuses to
    // invalidate. An exported key would be a promise to another process.
    constexpr unsigned kInvalidate = UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA | UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO;
    if (params && (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0 && (params->flags & ~kInvalidate) != 0)
        return refuse(ENOTSUP, "mkey_pack", "gaudi_copy packs no keys for export to another process");
    const MemoryHandle *handle = MemoryHandle::from(memh);
    if (!handle)
        return refuse(EINVAL, "mkey_pack", "cannot pack a key: the memory handle is not of gaudi_copy");
    if (handle->memory && !handle->is_live())
        return refuse(EINVAL, "mkey_pack",
                      os::format("cannot pack a key: the Gaudi memory at {:#x} was unmapped", handle->address));
    const RemoteKey key = RemoteKey::of(*handle);
    std::memcpy(buffer, &key, sizeof key);
    return {};
}

Result<void> Md::mem_attach(const void *buffer, uct_md_mem_attach_params *params, uct_mem_h *memh) {
    if (params && (params->field_mask & UCT_MD_MEM_ATTACH_FIELD_MKEY_SIZE) != 0 &&
        params->mkey_size < sizeof(RemoteKey))
        return refuse(EINVAL, "mem_attach",
                      os::format("a key has {} bytes, not {}: it was packed by another version or cut",
                                 sizeof(RemoteKey), params->mkey_size));
    const auto key = RemoteKey::read(buffer);
    if (!key)
        return tl::unexpected(key.error());
    const auto memory = key->find_mapping(m_cards);
    if (!memory)
        return tl::unexpected(memory.error());
    if (!key->own())
        if (auto fetched = key->fetch(); !fetched)
            return tl::unexpected(fetched.error());
    auto handle = std::make_unique<MemoryHandle>();
    handle->address = key->address;
    handle->length = key->length;
    handle->process = key->process;
    handle->descriptor = key->descriptor;
    handle->memory = *memory;
    if (handle->memory)
        handle->kind = MemoryHandle::Kind::gaudi;
    // No known driver maps another process's memory into a card: the handle serves for its key only.
    *memh = handle.release();
    return {};
}

// ---- the transport ------------------------------------------------------------------------------------------------

Result<void> Md::query_devices(uct_tl_device_resource **devices, unsigned *count) {
    *count = 0;
    *devices = m_ucx_cards.host().allocate<uct_tl_device_resource>(1, "gaudi device");
    if (!*devices)
        return refuse(ENOMEM, "query_devices", "no memory to list the gaudi device");
    // One for all cards: UCP takes at most two lanes for a memory type, and the addresses tell the cards apart.
    std::strncpy((*devices)->name, "gaudi", sizeof(*devices)->name - 1);
    (*devices)->type = UCT_DEVICE_TYPE_ACC;
    (*devices)->sys_device =
        m_cards.all().size() == 1 ? m_ucx_cards.sys_device(*m_cards.all().front()) : UCS_SYS_DEVICE_ID_UNKNOWN;
    *count = 1;
    return {};
}

Result<void> Md::iface_open(uct_worker_h worker, const uct_iface_params *params, const uct_iface_config *config,
                            uct_iface_h *iface) {
    auto opened = Iface::open({*this, m_ucx_cards.host(), m_cards, m_offers_copies}, worker, *params,
                              *reinterpret_cast<const IfaceConfig *>(config));
    if (!opened)
        return tl::unexpected(opened.error());
    *iface = &(*opened)->super;
    return {};
}

} // namespace gaudi::uct
